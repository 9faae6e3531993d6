// A worker that all pages of a browser share. One connection tells it which of their logs have grown, since browsers
// allow six connections to a server over all tabs. A page that is hidden, or whose log is over, follows none.
"use strict";

(() => {
  const MOST_LOGS = 20;
  const LONGEST = 6000;                // characters of an address
  const SETTLES = 200;                 // milliseconds: tabs are opened one after the other
  const AGAIN = 30000;                 // after a refusal; a connection that ends is made again by the browser
  const pages = new Map();             // the port of each page that follows a log, and the address of its pieces
  let connection = null;
  let followed = [];
  let timer = 0;

  function tell(message, address) {
    for (const [port, its] of pages) {
      if (address === undefined ? followed.includes(its) : its === address) port.postMessage(message);
    }
  }

  function wanted() {
    const found = [...new Set(pages.values())].slice(0, MOST_LOGS);
    while (query(found).length > LONGEST) found.pop();
    return found;
  }

  const query = (addresses) => addresses.map((one) => `log=${encodeURIComponent(one)}`).join("&");

  function connect() {
    const addresses = wanted();
    const isOpen = connection && connection.readyState !== EventSource.CLOSED;
    if (isOpen && query(addresses) === query(followed)) {
      if (connection.readyState === EventSource.OPEN) tell({ isLive: true });
      return;
    }
    if (connection) connection.close();
    connection = null;
    tell({ isLive: false });
    followed = addresses;
    if (!addresses.length) return;
    connection = new EventSource(`/board/log-events?${query(addresses)}`);
    connection.addEventListener("open", () => tell({ isLive: true }));
    connection.addEventListener("message", ({ data }) => tell({ grew: true }, addresses[Number(data)]));
    connection.addEventListener("error", () => {
      tell({ isLive: false });
      if (connection && connection.readyState === EventSource.CLOSED) plan(AGAIN);
    });
  }

  function plan(milliseconds) {
    clearTimeout(timer);
    timer = setTimeout(connect, milliseconds);
  }

  self.addEventListener("connect", ({ ports: [port] }) => {
    port.addEventListener("message", ({ data: address }) => {
      if (address) pages.set(port, address);
      else pages.delete(port);
      plan(SETTLES);
    });
    port.start();
  });
})();
