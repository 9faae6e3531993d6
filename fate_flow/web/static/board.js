// Keeps a page fresh: asks for it again, and changes only what differs, so that focus, scrolling and open parts stay.
// The server answers 304 while nothing has changed. A hidden page does not ask; it catches up when it is looked at.
"use strict";

(() => {
  if (!self.document) return;         // log-events.js, which is in the same file, runs without a page
  const trusted = window.trustedTypes
    ? window.trustedTypes.createPolicy("board", { createHTML: (text) => text })
    : { createHTML: (text) => text };
  const SLOWEST = 60;
  const GONE = "The server does not know what is shown here any more, for example because the job was removed";
  let tag = "";
  let failures = 0;
  let timer = 0;

  const times = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  function showTimes(root) {
    for (const one of root.querySelectorAll("time[datetime]")) {
      const at = new Date(one.dateTime);
      const text = times.format(at);
      if (one.textContent !== text) one.textContent = text;
      one.title = ago(at);
    }
  }

  function ago(at) {
    const seconds = Math.round((Date.now() - at) / 1000);
    const [unit, size] = seconds < 90 ? ["second", 1] : seconds < 5400 ? ["minute", 60] : seconds < 129600 ? ["hour", 3600] : ["day", 86400];
    return new Intl.RelativeTimeFormat("en").format(-Math.round(seconds / size), unit);
  }

  // Make the old element like the new one. Children are matched by their ids, others by their place.
  function morph(old, fresh) {
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(name === "open" && old.localName === "details") && name !== "title") old.removeAttribute(name);
    }
    for (const { name, value } of [...fresh.attributes]) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if (old.dataset && old.dataset.keep) {
      old.dispatchEvent(new CustomEvent("board:data"));
      return;
    }
    if (["input", "select", "textarea"].includes(old.localName)) return;      // what somebody is typing
    if (old.localName === "time" && old.dateTime === fresh.dateTime) return;
    const byId = new Map([...old.children].filter((one) => one.id).map((one) => [one.id, one]));
    let place = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const wanted = next.nodeType === 1 && next.id ? byId.get(next.id) : null;
      if (wanted) {
        if (wanted !== place) old.insertBefore(wanted, place);
        else place = place.nextSibling;
        morph(wanted, next);
      } else if (place && isAlike(place, next)) {
        const here = place;
        place = place.nextSibling;
        if (here.nodeType === 1) morph(here, next);
        else if (here.nodeValue !== next.nodeValue) here.nodeValue = next.nodeValue;
      } else {
        old.insertBefore(document.importNode(next, true), place);
      }
    }
    while (place) {
      const gone = place;
      place = place.nextSibling;
      gone.remove();
    }
  }

  function isAlike(one, other) {
    if (one.nodeType !== other.nodeType || one.nodeName !== other.nodeName) return false;
    return one.nodeType !== 1 || (!one.id && !other.id);
  }

  async function refresh() {
    clearTimeout(timer);
    if (document.hidden) return;
    let isGone = false;
    try {
      const headers = tag ? { "If-None-Match": tag } : {};
      const response = await fetch(location.href, { headers, cache: "no-store", credentials: "same-origin" });
      if (response.status === 401) {
        location.reload();
        return;
      }
      if (response.status === 200) {
        tag = response.headers.get("ETag") || "";
        const page = new DOMParser().parseFromString(trusted.createHTML(await response.text()), "text/html");
        document.title = page.title;
        document.body.dataset.poll = page.body.dataset.poll;
        morph(document.getElementById("main"), page.getElementById("main"));
        const reviews = document.getElementById("reviews");
        if (reviews && page.getElementById("reviews")) morph(reviews, page.getElementById("reviews"));
        showTimes(document);
        document.dispatchEvent(new CustomEvent("board:fresh"));
      } else if (response.status !== 304) {
        isGone = response.status === 404;
        throw new Error(`HTTP ${response.status}`);
      }
      failures = 0;
      document.getElementById("lost").hidden = true;
    } catch {
      document.getElementById("lost-why").textContent = isGone ? GONE : "The server does not answer";
      if (!failures) {
        const since = document.getElementById("lost-since");
        since.dateTime = new Date().toISOString();
        since.textContent = times.format(new Date());
      }
      failures += 1;
      document.getElementById("lost").hidden = false;
    }
    plan();
  }

  function plan() {
    const seconds = Number(document.body.dataset.poll);
    if (seconds) timer = setTimeout(refresh, 1000 * Math.min(SLOWEST, seconds * 2 ** Math.min(failures, 4)));
  }

  // A filter by time is in UTC in the address. People read and type it in the zone of the browser, as all other times.
  function showTimeFilters() {
    const { timeZone } = new Intl.DateTimeFormat().resolvedOptions();
    for (const one of document.querySelectorAll("input[data-utc]")) {
      document.getElementById(`${one.id}-zone`).textContent = `(${timeZone})`;
      if (!one.dataset.utc) continue;
      const at = new Date(`${one.dataset.utc}Z`);
      one.value = written(new Date(at - at.getTimezoneOffset() * 60_000));
      one.shownAtFirst = one.value;
    }
  }

  function written(at) {
    return at.toISOString().slice(0, at.getUTCSeconds() ? 19 : 16);
  }

  // What nobody has changed goes as it came: an hour that a clock repeats in autumn is two times in UTC.
  document.addEventListener("formdata", (event) => {
    for (const one of event.target.querySelectorAll("input[data-utc]")) {
      if (!one.value) continue;
      const utc = one.value === one.shownAtFirst ? one.dataset.utc : written(new Date(one.value));
      event.formData.set(one.name, `${utc}Z`);
    }
  });

  document.addEventListener("visibilitychange", () => { if (!document.hidden && Number(document.body.dataset.poll)) refresh(); });
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  // The number of all rows that fit: counted by one short request after the other, so none holds the server for long.
  async function count({ address, one, many }, shown) {
    let [sum, seen, next] = [0, 0, ""];
    try {
      do {
        const from = next ? `${address.includes("=") ? "&" : ""}from=${encodeURIComponent(next)}` : "";
        const response = await fetch(address + from, { cache: "no-store", credentials: "same-origin" });
        if (!response.ok) throw new Error(`HTTP ${response.status}`);
        const piece = await response.json();
        [sum, seen, next] = [sum + piece.count, seen + piece.looked_at, piece.next];
        const fit = `${sum.toLocaleString("en")} ${sum === 1 ? `${one} fits` : `${many} fit`}`;
        shown.textContent = next ? `${fit} of the newest ${seen.toLocaleString("en")}, counting on …` : `${fit} in all`;
      } while (next);
    } catch {
      shown.textContent += " The server does not answer: try again.";
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target;
    if (button.id !== "count" || button.disabled) return;
    button.disabled = true;
    await count(button.dataset, document.getElementById("counted"));
    button.disabled = false;
  });

  // A link that FATE's clients print: /index.html#/dashboard?job_id=...
  const old = /[?&]job_id=([0-9]{14,25})(?:&|$)/.exec(location.hash);
  if (old) location.replace(`/board/jobs/${old[1]}`);

  showTimes(document);
  showTimeFilters();
  plan();
})();
