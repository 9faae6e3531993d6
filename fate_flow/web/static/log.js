// Follows a log: asks for the next piece when the reader comes to the end, and for what is new while it is written. An
// event says when to ask; without a connection for events, and more seldom with one, a timer does. The server answers
// 304 while nothing is new. A hidden page does not ask; it catches up when it is looked at.
"use strict";

(() => {
  const MOST_PIECES = 40;
  const NEAR = 200;
  const SLOWEST = 60;
  const FAR = 1024 * 1024;
  const CALM = 15;
  const log = document.getElementById("log");
  const state = document.getElementById("log-state");
  let first = Number(log.dataset.at);
  let next = Number(log.dataset.next);
  let total = Number(log.dataset.total);
  let over = log.dataset.over === "yes";
  let tag = "";
  let failures = 0;
  let timer = 0;
  let asking = false;
  let grew = false;
  let isLive = false;                         // events come
  let soon = 0;                               // how often to ask at once, or in a second, after an event
  let tails = Boolean(log.dataset.tail);      // the reader looks at the end, and what comes is scrolled to
  const lengths = [next - first];

  const isAtVeryEnd = () => log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  const isAtEnd = () => log.scrollTop + log.clientHeight >= log.scrollHeight - NEAR;

  function show() {
    const ends = next < total ? "; scroll down for more" : over ? "; nothing more comes" : "; what is written appears here";
    state.textContent = `Bytes ${first} to ${next} of ${total}${ends}.`;
  }

  function append(text) {
    log.append(document.createTextNode(text));
    while (lengths.length > MOST_PIECES) {
      first += lengths.shift();
      log.firstChild.remove();
    }
  }

  async function ask() {
    clearTimeout(timer);
    if (asking || document.hidden) return;
    if (!isAtEnd()) {
      plan();
      return;
    }
    asking = true;
    soon = Math.max(0, soon - 1);
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      const response = await fetch(`${log.dataset.piece}&at=${next}`, { headers, cache: "no-store", credentials: "same-origin" });
      if (response.status === 401) {
        location.reload();
        return;
      }
      if (response.status === 200) {
        const found = await response.json();
        tag = found.next === next ? response.headers.get("ETag") || "" : "";
        tails = tails || (isAtVeryEnd() && next > 0 && next >= total);
        if (tails && found.total - next > FAR) {          // after hours in a hidden tab, say: not all of it, the end
          location.replace(log.dataset.end);
          return;
        }
        grew = found.next > next;
        if (grew) {
          lengths.push(found.next - next);
          append(found.text);
        }
        next = found.next;
        total = found.total;
        if (over !== found.over) {
          over = found.over;
          follow();
        }
        if (tails) log.scrollTop = log.scrollHeight;
        show();
      } else if (response.status !== 304) {
        throw new Error(`HTTP ${response.status}`);
      } else {
        grew = false;
      }
      failures = 0;
    } catch {
      failures += 1;
      state.textContent = "The server does not answer; it is asked again.";
    } finally {
      asking = false;
    }
    plan();
  }

  function plan() {
    clearTimeout(timer);
    // What has just grown grows on, often. A second question follows an event: a worker that has ended is seen a moment
    // after its last line.
    const seconds = soon ? 1 : isLive ? CALM : Number(log.dataset.every) / (grew ? 4 : 1);
    if (next < total && isAtEnd() && !failures) timer = setTimeout(ask, 0);
    else if (!over || failures) timer = setTimeout(ask, 1000 * Math.min(SLOWEST, seconds * 2 ** Math.min(failures, 4)));
  }

  function shared() {
    if (!log.dataset.events || !window.SharedWorker) return null;
    const address = { createScriptURL: (text) => text };
    const trusted = window.trustedTypes ? window.trustedTypes.createPolicy("board-events", address) : address;
    const { port } = new SharedWorker(trusted.createScriptURL(log.dataset.events));
    port.addEventListener("message", ({ data }) => {
      if (data.grew) {
        soon = 2;
        ask();
        return;
      }
      isLive = data.isLive;
      log.dataset.live = isLive ? "yes" : "";
      if (!asking) plan();
    });
    port.start();
    return port;
  }

  function follow() {
    if (events) events.postMessage(over || document.hidden ? "" : log.dataset.piece);
  }

  log.addEventListener("scroll", () => {
    if (!isAtVeryEnd()) tails = false;
    if (next < total) ask();
  });
  document.addEventListener("visibilitychange", () => {
    follow();
    if (!document.hidden) ask();
  });
  window.addEventListener("pagehide", () => { if (events) events.postMessage(""); });
  window.addEventListener("pageshow", follow);
  const events = shared();
  if (log.dataset.tail) log.scrollTop = log.scrollHeight;
  show();
  if (next < total || !over) plan();
})();
