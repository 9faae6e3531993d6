// The shared worker (SharedWorker) of all pages of a browser. One connection tells it which of their logs have grown,
// since browsers allow six connections to a server over all tabs. A page that is hidden, or whose log is over, follows
// none. Its file is that of the pages, which have it already; there this part has nothing to do.
"use strict";

(() => {
  if (self.document) return;
  const MOST_LOGS = 20;
  const LONGEST = 6000;                // characters of an address
  const SETTLES = 200;                 // milliseconds: tabs are opened one after the other
  const AGAIN = 30000;                 // after a refusal; a connection that ends is made again by the browser
  const pages = new Map();             // the port of each page that follows a log, and the address of its pieces
  let connection = null;
  let followed = [];
  let timer = 0;
  let due = Infinity;

  function tell(message, addresses) {
    for (const [port, address] of pages) if (addresses.includes(address)) port.postMessage(message);
  }

  function wanted() {
    const found = [...new Set(pages.values())].slice(-MOST_LOGS);        // of the pages that were looked at last
    while (query(found).length > LONGEST) found.shift();
    return found.sort();               // the same pages are the same question
  }

  const query = (addresses) => addresses.map((one) => `log=${encodeURIComponent(one)}`).join("&");

  function connect() {
    due = Infinity;
    const addresses = wanted();
    const isOpen = connection && connection.readyState !== EventSource.CLOSED;
    if (isOpen && query(addresses) === query(followed)) return;
    if (connection) connection.close();
    connection = null;
    tell("lost", followed);
    followed = addresses;
    if (!addresses.length) return;
    connection = new EventSource(`/board/log-events?${query(followed)}`);
    connection.addEventListener("message", ({ data }) => tell("grew", [followed[Number(data)]]));
    connection.addEventListener("error", ({ target }) => {
      if (target !== connection) return;
      tell("lost", followed);
      if (target.readyState === EventSource.CLOSED) plan(AGAIN);
    });
  }

  function plan(milliseconds) {
    const at = Date.now() + milliseconds;
    if (at >= due) return;
    due = at;
    clearTimeout(timer);
    timer = setTimeout(connect, milliseconds);
  }

  function follow(port, address) {
    pages.delete(port);
    if (address) pages.set(port, address);
    plan(SETTLES);
  }

  self.addEventListener("connect", ({ ports: [port] }) => {
    port.addEventListener("message", ({ data }) => follow(port, data));
    port.addEventListener("close", () => follow(port, ""));
    port.start();
  });
})();
