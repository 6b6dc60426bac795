// Sends the calls that the page describes. What is typed stays in this tab.
"use strict";

const token = document.getElementById("token");
token.value = sessionStorage.getItem("token") || "";
token.addEventListener("input", () => sessionStorage.setItem("token", token.value));
document.getElementById("who").addEventListener("submit", (e) => e.preventDefault());

document.getElementById("find").addEventListener("input", (e) => {
  const words = e.target.value.toLowerCase().split(/\s+/);
  for (const item of document.querySelectorAll("[data-find]")) {
    const text = item.dataset.find.toLowerCase();
    item.hidden = !words.every((w) => text.includes(w));
  }
  for (const list of document.querySelectorAll("nav ul")) {
    list.hidden = !list.querySelector("li:not([hidden])");
    list.previousElementSibling.hidden = list.hidden;
  }
  for (const section of document.querySelectorAll("main section:not(.about)")) {
    section.hidden = !section.querySelector("details:not([hidden])");
  }
});

function openNamed() {
  const call = document.getElementById(location.hash.slice(1));
  if (call instanceof HTMLDetailsElement) {
    call.open = true;
    call.scrollIntoView();
  }
}
addEventListener("hashchange", openNamed);
openNamed();

const quote = (s) => "'" + s.replaceAll("'", "'\\''") + "'";

async function request(call) {
  let path = call.dataset.path;
  const query = new URLSearchParams();
  const headers = {};
  for (const field of call.querySelectorAll("[data-in]")) {
    if (field.dataset.in === "path") path = path.replace("{" + field.name + "}", encodeURIComponent(field.value));
    else if (field.value !== "" && field.dataset.in === "query") query.set(field.name, field.value);
    else if (field.value !== "" && field.dataset.in === "header") headers[field.name] = field.value;
  }
  if (query.size > 0) path += "?" + query;
  if (token.value) headers.Authorization = "Bearer " + token.value;
  const body = call.querySelector("[data-body]");
  const init = { method: call.dataset.method, headers };
  let shell = "curl -X " + init.method;
  for (const [name, value] of Object.entries(headers)) shell += " -H " + quote(name + ": " + (name === "Authorization" ? "Bearer $TOKEN" : value));
  if (body) {
    headers["Content-Type"] = call.dataset.kind;
    shell += " -H " + quote("Content-Type: " + call.dataset.kind);
    if (body.type === "file") {
      init.body = body.files[0] || new Blob([]);
      shell += " --data-binary @" + quote(body.files[0] ? body.files[0].name : "FILE");
    } else {
      init.body = body.value;
      shell += " -d " + quote(body.value);
    }
  }
  return { path, init, shell: shell.replace("'Authorization: Bearer $TOKEN'", '"Authorization: Bearer $TOKEN"') + " " + quote(location.origin + path) };
}

const show = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

for (const call of document.querySelectorAll("details.call")) {
  const result = call.querySelector(".result");
  const status = result.querySelector(".status");
  const answer = result.querySelector(".answer");
  const stop = call.querySelector(".stop");
  call.querySelector("form").addEventListener("submit", async (e) => {
    e.preventDefault();
    const { path, init, shell } = await request(call);
    const ending = new AbortController();
    result.hidden = false;
    status.textContent = "…";
    answer.textContent = "";
    result.querySelector(".shell").textContent = shell;
    if (stop) {
      stop.hidden = false;
      stop.onclick = () => ending.abort();
    }
    const begun = performance.now();
    try {
      const r = await fetch(path, { ...init, signal: ending.signal });
      status.textContent = r.status + " " + r.statusText;
      if (call.dataset.stream) {
        const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          answer.append(value);
        }
      } else {
        answer.textContent = show(await r.text());
      }
      status.textContent += " in " + Math.round(performance.now() - begun) + " ms";
    } catch (err) {
      status.textContent = ending.signal.aborted ? "stopped" : "no answer: " + err.message;
    } finally {
      if (stop) stop.hidden = true;
    }
  });
}
