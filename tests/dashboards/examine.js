/* What is wrong with the page as it is drawn: what sticks out, what lies over something else, what is blank. */
(() => {
  const box = (node) => node.getBoundingClientRect();
  const title = (card) => card.querySelector("h4").textContent;
  const cards = [...document.querySelectorAll(".panel")];
  const blank = (canvas) => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const first = pixels.slice(0, 4).join();
    for (let at = 0; at < pixels.length; at += 4) if (pixels.slice(at, at + 4).join() !== first) return false;
    return true;
  };
  const inside = (inner, outer) => inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
  const over = (one, other) => one.left < other.right - 1 && other.left < one.right - 1 && one.top < other.bottom - 1 && other.top < one.bottom - 1;
  const parts = "h4, summary, canvas, .legend, .stat, .empty, .traces, .scroll, pre";
  const found = {
    drawn: document.documentElement.dataset.drawn ?? "no",
    panels: cards.length,
    width: innerWidth,
    wider: document.documentElement.scrollWidth - innerWidth,
    undrawn: cards.filter((card) => !card.querySelector("canvas, .stat, td, pre, .empty svg")).map(title),
    empty: cards.filter((card) => card.querySelector(".empty")).map((card) => [title(card), card.querySelector(".empty").textContent]),
    blank: cards.filter((card) => [...card.querySelectorAll("canvas")].some(blank)).map(title),
    outside: cards.filter((card) => [...card.querySelectorAll(parts)].some((node) => !inside(box(node), box(card)))).map(title),
    overlapping: cards.filter((card, place) => cards.slice(place + 1).some((other) => over(box(card), box(other)))).map(title),
    covering: cards.filter((card) => {
      const nodes = [...card.querySelectorAll(parts)];
      return nodes.some((one, place) => nodes.slice(place + 1).some((other) => !one.contains(other) && over(box(one), box(other))));
    }).map(title),
    clipped: [...document.querySelectorAll("h1, h2, h3, h4, .stat b, .stat span, .legend li")].filter((node) => node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).display !== "inline").map((node) => node.textContent),
    keys: [...document.querySelectorAll("td.key")].map((node) => [node.title, box(node).width]),
    hidden: [...document.querySelectorAll(".scroll")].filter((holder) => [...holder.querySelectorAll("td.number")].some((node) => box(node).right > box(holder).right + 1)).length,
    traces: [...document.querySelectorAll(".traces a")].map((node) => node.href),
    kinds: Object.fromEntries(["canvas", ".stat", "td", "pre", ".empty"].map((name) => [name, document.querySelectorAll(name).length])),
    background: getComputedStyle(document.body).backgroundColor,
  };
  parent.postMessage(found, "*");
})();
