// Show and hide series; highlight the series under the pointer, or whose checkbox has the focus.
for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector("svg");
  const parts = (i) => svg.querySelectorAll(`g.series.s${i}`);
  const light = (i) => {
    svg.classList.toggle("dimmed", i !== null);
    for (const part of svg.querySelectorAll("g.series")) part.classList.toggle("lit", part.classList.contains(`s${i}`));
  };
  for (const box of figure.querySelectorAll("input[data-series]")) {
    const i = box.dataset.series;
    box.addEventListener("change", () => parts(i).forEach((part) => part.classList.toggle("off", !box.checked)));
    for (const [event, series] of [["focus", i], ["blur", null]]) box.addEventListener(event, () => light(series));
    for (const [event, series] of [["pointerenter", i], ["pointerleave", null]])
      box.parentElement.addEventListener(event, () => light(series));
  }
  for (const part of svg ? svg.querySelectorAll("g.series") : []) {
    const i = [...part.classList].find((name) => /^s\d+$/.test(name)).slice(1);
    part.addEventListener("pointerenter", () => light(i));
    part.addEventListener("pointerleave", () => light(null));
  }
}
// Copy a command or a config; without the right to copy, it stays selected.
for (const box of document.querySelectorAll(".copied")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(box.querySelector("code"));
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  box.append(button);
}
