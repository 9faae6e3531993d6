// Follows a log: asks for the next piece when the reader comes to the end, and for what is new while it is written.
// The server answers 304 while nothing is. A hidden page does not ask; it catches up when it is looked at.
"use strict";

(() => {
  const MOST_PIECES = 40;
  const NEAR = 200;
  const SLOWEST = 60;
  const FAR = 1024 * 1024;
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
        over = found.over;
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
    const seconds = Number(log.dataset.every) / (grew ? 4 : 1);         // what has just grown grows on, often
    if (next < total && isAtEnd() && !failures) timer = setTimeout(ask, 0);
    else if (!over || failures) timer = setTimeout(ask, 1000 * Math.min(SLOWEST, seconds * 2 ** Math.min(failures, 4)));
  }

  log.addEventListener("scroll", () => {
    if (!isAtVeryEnd()) tails = false;
    if (next < total) ask();
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
  if (log.dataset.tail) log.scrollTop = log.scrollHeight;
  show();
  if (next < total || !over) plan();
})();
