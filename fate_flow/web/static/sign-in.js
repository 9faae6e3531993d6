// Answers the challenge of the server with the secret key, which stays here.
"use strict";

(() => {
  const form = self.document?.getElementById("sign-in");
  if (!form) return;
  const secret = document.getElementById("secret");
  const text = new TextEncoder();

  if (!window.crypto || !window.crypto.subtle) {
    document.getElementById("insecure").hidden = false;
    for (const one of form.elements) one.disabled = true;
    return;
  }

  // After a link on a page of another site, the browser did not send the session that it has.
  if (form.dataset.mayHaveSession) fetch("/board/session", { credentials: "same-origin", cache: "no-store" }).then((response) => {
    if (response.status === 204) location.replace(form.elements.next.value);
  }).catch(() => {});

  async function proof() {
    const name = { name: "HMAC", hash: "SHA-256" };
    const key = await crypto.subtle.importKey("raw", text.encode(secret.value.trim()), name, false, ["sign"]);
    const asked = text.encode(`fate_flow board sign-in\n${form.elements.challenge.value}`);
    const bytes = new Uint8Array(await crypto.subtle.sign("HMAC", key, asked));
    return [...bytes].map((one) => one.toString(16).padStart(2, "0")).join("");
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    form.elements.proof.value = await proof();
    secret.value = "";
    form.submit();
  });
})();
