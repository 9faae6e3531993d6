// Follows a log: asks for the next piece when the reader comes to the end, and for what is new while it is written: at an
// event, at most once a second, and every few seconds without one. The server answers 304 while nothing is new. A hidden
// page does not ask; it catches up when it is looked at.
"use strict";

const followLog = () => {
  const MOST_PIECES = 40;
  const NEAR = 200;
  const SLOWEST = 60;
  const FAR = 1024 * 1024;
  const GONE = "The server does not have this log any more: its job may have been removed.";
  const PAUSE = 1000;                         // milliseconds between two questions, at least
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
  let asked = 0;                              // when, in milliseconds
  let grew = false;
  let hasEvents = false;                      // they come
  let isTold = false;                         // by an event, that there is more
  let events = null;                          // the port of the shared worker that tells it
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
    asked = Date.now();
    isTold = false;
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
        throw new Error(response.status === 404 ? GONE : `HTTP ${response.status}`);
      } else {
        grew = false;
      }
      failures = 0;
    } catch (error) {
      failures += 1;
      state.textContent = error.message === GONE ? GONE : "The server does not answer; it is asked again.";
    } finally {
      asking = false;
    }
    plan();
  }

  function plan() {
    clearTimeout(timer);
    const seconds = Number(log.dataset.every) / (grew && !hasEvents ? 4 : 1);      // what has just grown grows on, often
    if (next < total && isAtEnd() && !failures) timer = setTimeout(ask, 0);
    else if (isTold && isAtEnd() && !failures) timer = setTimeout(ask, Math.max(0, asked + PAUSE - Date.now()));
    else if (!over || failures) timer = setTimeout(ask, 1000 * Math.min(SLOWEST, seconds * 2 ** Math.min(failures, 4)));
  }

  // Without events the page asks: the browser has no shared workers, or does not allow them here.
  function shared() {
    if (!log.dataset.events || !window.SharedWorker) return null;
    const address = { createScriptURL: (text) => text };
    try {
      const trusted = window.trustedTypes ? window.trustedTypes.createPolicy("board-events", address) : address;
      return new SharedWorker(trusted.createScriptURL(log.dataset.events)).port;
    } catch {
      return null;
    }
  }

  function hear({ data }) {
    hasEvents = data === "grew";
    isTold = isTold || hasEvents;
    log.dataset.live = hasEvents ? "yes" : "";
    if (!asking) plan();
  }

  function follow() {
    if (!events) return;
    const isFollowed = !over && !document.hidden;
    hasEvents = hasEvents && isFollowed;
    events.postMessage(isFollowed ? log.dataset.piece : "");
  }

  log.addEventListener("scroll", () => {
    if (!isAtVeryEnd()) tails = false;
    if (next < total) ask();
    else if (isTold && !asking) plan();
  });
  document.addEventListener("visibilitychange", () => {
    follow();
    if (!document.hidden) ask();
  });
  window.addEventListener("pagehide", () => { if (events) events.postMessage(""); });
  window.addEventListener("pageshow", follow);
  if (log.dataset.tail) log.scrollTop = log.scrollHeight;
  show();
  if (next < total || !over) plan();
  events = shared();
  if (events) {
    events.addEventListener("message", hear);
    events.start();
    follow();                   // a page that was shown before gets no more "pageshow"
  }
};

// A log that was not there when the page was opened comes when the page is refreshed.
if (self.document?.getElementById("log")) followLog();
else if (self.document) {
  document.addEventListener("board:fresh", function begin() {
    if (!document.getElementById("log")) return;
    document.removeEventListener("board:fresh", begin);
    followLog();
  });
}
