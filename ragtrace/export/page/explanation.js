"use strict";
(() => {
  const data = JSON.parse(document.getElementById("values").textContent);
  const answer = document.getElementById("shaded");
  const figures = document.getElementById("figures");
  const hint = figures ? figures.textContent : "";
  document.documentElement.classList.add("js");
  addEventListener("beforeprint", () => document.querySelectorAll("details:not(.data)").forEach((each) => { each.open = true; }));
  if (!answer) return;
  const words = [...answer.querySelectorAll("i")].map((node) => ({ node, usual: node.className, at: Number(node.dataset.w) }));
  const marks = answer.querySelectorAll("sup");
  const buttons = [...document.querySelectorAll(".chips button")];
  const number = (value) => (value >= 0 ? "+" : "−") + Math.abs(value).toFixed(2);
  let chosen = -1;

  function show(row) {
    for (const { node, usual, at } of words) {
      if (row < 0) { node.className = usual; continue; }
      const value = data.values[row][at];
      const level = Math.abs(value) < data.faintest * data.scale ? 0 : Math.min(data.levels, Math.ceil(data.levels * Math.abs(value) / data.scale));
      node.className = level === 0 ? "s0" : value < 0 ? "n" : `d${data.documents[row].color} s${level}`;
    }
    marks.forEach((mark) => { mark.hidden = row >= 0; });
    document.querySelectorAll("tr[data-row]").forEach((line) => line.classList.toggle("chosen", Number(line.dataset.row) === row));
  }

  function choose(row) {
    chosen = row;
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.row) === row)));
    show(row);
  }

  for (const button of buttons) {
    const row = Number(button.dataset.row);
    button.addEventListener("click", () => choose(row === chosen ? -1 : row));
    button.addEventListener("mouseenter", () => show(row));
    button.addEventListener("mouseleave", () => show(chosen));
  }
  answer.addEventListener("mouseover", (event) => {
    const node = event.target.closest("i");
    if (!node) return;
    const at = Number(node.dataset.w);
    const parts = data.documents.map((each, row) => [each.letter, data.values[row][at]]);
    parts.sort((one, other) => Math.abs(other[1]) - Math.abs(one[1]));
    figures.textContent = `“${node.textContent.trim()}”: ` + parts.slice(0, 8).map(([letter, value]) => `${letter} ${number(value)}`).join(", ") + ` ${data.unit}`;
  });
  answer.addEventListener("mouseleave", () => { figures.textContent = hint; });
})();
