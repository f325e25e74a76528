// The page shows what the folder holds: Python renders it again after everything that changes it.

const $ = (id) => document.getElementById(id);
const asSentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`/api/${path}`, { method: "POST", headers, body }).catch(() => {
    throw new Error($("say-stopped").textContent);
  });
  if (!response.ok) throw new Error((await response.json()).error);
  return response.text();
}

function complain(problems) {
  $("problem").textContent = problems.join("\n");
  $("problem").hidden = problems.length === 0;
}

// Problems of a drop stay beside what the folder holds after it.
async function show(path, body = "{}", problems = []) {
  const focused = document.activeElement.id;
  $("desk").setAttribute("aria-busy", "true");
  for (const button of document.querySelectorAll("button")) button.disabled = true;
  try {
    const fragment = new DOMParser().parseFromString(await post(path, body), "text/html");
    $("desk").replaceWith(fragment.getElementById("desk"));
    complain(problems);
  } catch (error) {
    complain([...problems, asSentence(error.message)]);
    for (const button of document.querySelectorAll("button")) button.disabled = false;
    $("desk").setAttribute("aria-busy", "false");
  }
  if (focused) $(focused)?.focus();
}

async function receive(files) {
  const problems = [];
  for (const file of files) {
    try {
      if (file.size > Number(document.querySelector("main").dataset.most)) throw new Error($("say-large").textContent);
      await post("receive", file);
    } catch (error) {
      problems.push(`${file.name}: ${error.message}`);
    }
  }
  await show("desk", "{}", problems);
}

addEventListener("change", (event) => event.target.type === "file" && receive(event.target.files));
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  receive(event.dataTransfer.files);
});
addEventListener("click", ({ target: { dataset } }) => {
  if (dataset.order) show(dataset.order, JSON.stringify({ replace: dataset.replace === "yes" }));
});
show("desk");
