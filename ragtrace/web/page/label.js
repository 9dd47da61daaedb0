"use strict";
// 1, 2, 3 answer the stage that is asked; the next one is asked then. k keeps, s skips. All of it works by Tab as well.
(() => {
  const form = document.getElementById("label");
  const stages = [...form.querySelectorAll(".said fieldset")];
  const asked = () => stages.find((one) => !one.querySelector("input:checked")) || stages[stages.length - 1];
  const mark = () => stages.forEach((one) => one.classList.toggle("asked", one === asked()));
  addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input:not([type=radio], [type=checkbox]), textarea, select")) return;
    if (["1", "2", "3"].includes(event.key)) {
      asked().querySelectorAll("input")[Number(event.key) - 1].click();
    } else if (event.key === "k") {
      form.requestSubmit();
    } else if (event.key === "s") {
      document.getElementById("skip").click();
    } else {
      return;
    }
    event.preventDefault();
    mark();
  });
  form.addEventListener("change", mark);
  mark();
})();
