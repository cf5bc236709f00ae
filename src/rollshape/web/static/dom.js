// Elements and text. All text goes through textContent: nothing that a file or a user says becomes markup.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  append(element, children);
  return element;
}

export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  append(element, children);
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "value" && "value" in element) element.value = value;
  else element.setAttribute(name, value === true ? "" : value);
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

export const integer = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en-US"));

export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}

export function compact(value) {
  for (const [unit, size] of [["B", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  return String(Number(value.toPrecision(3)));
}

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
  let i = 0;
  while (count >= 1000 && i < units.length - 1) [count, i] = [count / 1000, i + 1];
  return `${i ? Number(count.toPrecision(3)) : Math.round(count)} ${units[i]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 60) return `${Number(value.toPrecision(2))} s`;
  if (value < 3600) return `${Math.round(value / 60)} min`;
  return `${Number((value / 3600).toPrecision(2))} h`;
}

// "64", "500_000", "1e6", "100M", "10k": as the command line reads sizes. NaN for anything else.
export function parseSize(text) {
  const match = /^([0-9][0-9_,]*(?:\.[0-9]*)?|\.[0-9]+)(e[+]?[0-9]+)?([kmbg])?$/i.exec(text.trim());
  if (!match) return NaN;
  const unit = { k: 1e3, m: 1e6, b: 1e9, g: 1e9 }[(match[3] ?? "").toLowerCase()] ?? 1;
  const value = Number(match[1].replace(/[_,]/g, "") + (match[2] ?? "")) * unit;
  return Number.isInteger(value) ? value : NaN;
}

export function toast(text) {
  const element = document.getElementById("toast");
  element.textContent = text;
  element.classList.add("on");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => element.classList.remove("on"), 2200);
}

export function copyButton(text, label = "Copy") {
  return h("button", {
    type: "button", class: "small",
    onclick: async () => {
      const value = typeof text === "function" ? text() : text;
      try {
        await navigator.clipboard.writeText(value);
        toast("Copied");
      } catch {
        toast("The browser does not allow copying; select the text instead");
      }
    },
  }, label);
}

export function diffView(text) {
  const lines = text.split("\n").filter((line) => !line.startsWith("---") && !line.startsWith("+++"));
  return h("pre", { class: "code diff", tabindex: "0", "aria-label": "Difference" }, lines.map((line) => {
    const kind = line[0] === "+" ? "add" : line[0] === "-" ? "del" : line[0] === "@" ? "at" : "";
    return h("span", { class: kind }, line, "\n");
  }));
}

export function severity(level) {
  const words = { error: "Error", warn: "Warning", info: "Note" };
  return h("span", { class: `badge ${level}` }, words[level] ?? level);
}

export function errorBox(error) {
  return h("div", { class: "finding error", role: "alert" }, severity("error"),
    h("div", {}, h("p", {}, error.message), error.fix && h("p", { class: "muted" }, error.fix)));
}

export function empty(title, text, command) {
  return h("section", { class: "empty" }, h("h2", {}, title), h("p", {}, text), commandBox(command));
}

// A command to copy.
export function commandBox(command) {
  return h("div", { class: "code-box command" }, h("pre", { class: "code", tabindex: "0" }, command.split(/(?= --)/).map((part) => [" ", h("span", {}, part.trim())])), copyButton(command));
}

export const plural = (count, noun) => `${integer(count)} ${noun}${count === 1 ? "" : "s"}`;

// The name of a run, and its folder without the name that all folders of trials have.
export const nameOf = (path) => path.split("/").at(-1);
export const folderOf = (path) => path.split("/").slice(0, -1).filter((part) => part !== "trials").map((part) => `${part}/`).join("");
