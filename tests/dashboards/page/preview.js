"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const LIGHT = ["#0b62c4", "#d9480f", "#2b8a3e", "#9c36b5", "#b08900", "#0c8599", "#c2255c", "#5c677d"];
  const DARK = ["#7ab7ff", "#ff9a5c", "#6fdd8b", "#dd9bf0", "#f2cf5b", "#5fd3e6", "#ff8fb8", "#aab4c5"];
  const CHART_HEIGHT = 210;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const redraws = [];

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const hue = (index) => (dark.matches ? DARK : LIGHT)[index % LIGHT.length];

  /* An element: its class, attributes by key, children or text. */
  function make(name, { className, ...attributes } = {}, ...children) {
    const space = ["svg", "rect", "line", "path"].includes(name) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
    const node = document.createElementNS(space, name);
    if (className) node.setAttribute("class", className);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  /* Words in which `code` stands between backticks. */
  const prose = (words) => words.split("`").map((part, place) => (place % 2 ? make("code", {}, part) : part));

  /* Numbers by unit. */
  const two = (value) => String(value).padStart(2, "0");
  const instant = (seconds) => {
    const at = new Date(seconds * 1000);
    return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())} ${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  };
  const plain = (value, digits) => Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
  function duration(value) {
    const size = Math.abs(value);
    const [unit, seconds] = [["ms", 0.001], ["s", 1], ["min", 60], ["h", 3600], ["d", 86400], ["y", 31536000]].filter(([, each], place) => place === 0 || size >= each).pop();
    return size === 0 ? "0 s" : `${plain(value / seconds, 3)} ${unit}`;
  }
  function short(value) {
    const size = Math.abs(value);
    if (size >= 1e9) return `${plain(value / 1e9, 3)} G`;
    if (size >= 1e6) return `${plain(value / 1e6, 3)} M`;
    if (size >= 1e4) return `${plain(value / 1e3, 3)} k`;
    if (size >= 1e3) return plain(value, 4);
    if (size > 0 && size < 0.001) return value.toExponential(0);
    return plain(value, 3);
  }
  function percent(value, decimals) {
    const digits = decimals ?? (Math.abs(value) < 0.1 && value !== 0 ? 1 : 0);
    return `${(value * 100).toFixed(digits).replace(/^-/, "−")} %`;
  }
  function format(value, unit, decimals) {
    if (value === null || value === undefined) return "–";
    if (unit === "percentunit") return percent(value, decimals);
    if (unit === "s") return duration(value);
    if (unit === "dateTimeAsIso") return instant(value / 1000);
    if (unit === "cpm") return `${short(value)}/min`;
    return decimals === null || decimals === undefined ? short(value) : value.toFixed(decimals);
  }
  const tone = (thresholds, value) => (value === null ? null : thresholds.filter((each) => each.value === null || value >= each.value).map((each) => each.color).pop()) ?? null;
  /* The color of a series: that of its stage or state, else one of its own. Of several reasons of a state each is paler. */
  const VIVID = { orange: "vivid-orange", green: "vivid-green" };
  const SHADES = [100, 70, 50, 35, 25];
  function paintOf(panel, each) {
    const known = panel.named ? Object.entries(data.colors[panel.named]).find(([beginning]) => each.name.startsWith(beginning)) : null;
    if (!known) return hue(each.index);
    const paint = color(VIVID[known[1]] ?? known[1]);
    const before = panel.named === "states" ? panel.series.slice(0, each.index).filter((other) => other.name.startsWith(known[0])).length : 0;
    return before ? `color-mix(in srgb, ${paint} ${SHADES[Math.min(before, SHADES.length - 1)]}%, ${color("card")})` : paint;
  }
  const MARKS = { green: "✓ ", orange: "! ", red: "✕ " };

  /* What lies over a chart: lines of releases, and an objective. */
  function overlay(panel) {
    return (chart) => {
      const { ctx, bbox } = chart;
      ctx.save();
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      if (panel.line !== null && panel.line !== undefined) {
        const y = Math.round(chart.valToPos(panel.line, "y", true));
        ctx.strokeStyle = color("green");
        ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
      }
      ctx.strokeStyle = color("release");
      for (const release of data.releases) {
        const x = Math.round(chart.valToPos(release.at, "x", true));
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
      }
      named(ctx, chart);
      ctx.restore();
    };
  }

  /* The names of releases beside their lines, as far as there is room. */
  function named(ctx, chart) {
    const { bbox } = chart;
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "bottom";
    ctx.fillStyle = color("release");
    let free = bbox.left + bbox.width;
    for (const release of [...data.releases].reverse()) {
      const x = Math.round(chart.valToPos(release.at, "x", true));
      const left = Math.min(x, bbox.left + bbox.width - ctx.measureText(release.name).width);
      if (x < bbox.left || left + ctx.measureText(release.name).width + 8 * devicePixelRatio > free && free < bbox.left + bbox.width) continue;
      ctx.fillText(release.name, left, bbox.top - 3 * devicePixelRatio);
      free = left;
    }
  }

  const ROUND_SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, ...[1, 2, 5, 10, 20, 50, 100, 365, 730, 1825, 3650].map((days) => days * 86400)];

  function axes(values, extra = {}) {
    const common = { stroke: () => color("faint"), grid: { stroke: () => color("grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const widest = (chart, labels) => Math.max(36, 12 + 7 * Math.max(0, ...(labels || []).map((label) => String(label ?? "").length)));
    const times = (chart, ticks) => ticks.map((at, place) => {
      const [day, hour] = instant(at).split(" ");
      return place > 0 && instant(ticks[place - 1]).startsWith(day) ? hour : `${hour}\n${day}`;
    });
    return [{ ...common, space: 60, values: times, size: 42 }, { ...common, values, size: widest, ...extra }];
  }

  function base(panel, width) {
    return {
      width, height: CHART_HEIGHT, padding: [data.releases.length ? 20 : 8, 12, 0, 0],
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    };
  }

  /* The values under the cursor. */
  function tip(panel, card, describe) {
    const node = make("div", { className: "tip" });
    card.append(node);
    return (chart) => {
      const { idx, left, top } = chart.cursor;
      const words = idx === null || idx === undefined || left < 0 ? null : describe(idx, top);
      node.style.display = words ? "block" : "none";
      if (!words) return;
      const place = chart.root.getBoundingClientRect();
      const outer = card.getBoundingClientRect();
      node.textContent = words;
      const x = place.left - outer.left + chart.over.offsetLeft + left;
      node.style.left = `${Math.max(4, Math.min(x + 14, outer.width - node.offsetWidth - 6))}px`;
      node.style.top = `${place.top - outer.top + 6}px`;
    };
  }
  function near(at, reach) {
    return data.releases.filter((release) => Math.abs(release.at - at) <= reach).map((release) => `release: ${release.name}`);
  }

  function lines(panel, holder, card) {
    const stacked = panel.kind === "stacked";
    const shown = panel.series.map((each, index) => ({ ...each, index }));
    const total = panel.times.map(() => 0);
    const columns = shown.map((each) => each.values.map((value, place) => (stacked ? (total[place] += value ?? 0) : value)));
    const drawn = stacked ? shown.map((each, place) => ({ ...each, column: columns[place] })).reverse() : shown.map((each, place) => ({ ...each, column: columns[place] }));
    const reach = (data.end - data.start) / 60;
    const update = tip(panel, card, (at) => {
      const time = panel.times[at];
      const rows = shown.filter((each) => each.values[at] !== null).map((each) => `${each.name}: ${format(each.values[at], panel.unit, panel.decimals)}`);
      return [`${instant(time)} UTC`, ...near(time, reach), ...rows.slice(0, 12)].join("\n");
    });
    const range = (chart, low, high) => {
      const bottom = panel.minimum ?? (low ?? 0);
      let top = panel.maximum ?? Math.max(high ?? 1, panel.line ?? -Infinity);
      if (top <= bottom) top = bottom + (panel.unit === "percentunit" ? 0.01 : 1);
      const air = (top - bottom) * 0.06;
      return [panel.minimum === null || panel.minimum === undefined ? bottom - air : bottom, panel.maximum === 1 ? 1.02 : top + air];
    };
    const series = drawn.map((each) => ({
      stroke: () => paintOf(panel, each), width: stacked ? 1 : 2, points: { show: panel.times.length < 3, size: 6, fill: () => paintOf(panel, each) },
      ...(stacked ? { fill: () => paintOf(panel, each) } : {}),
      ...(panel.named === "stages" && each.name.includes("proxy") ? { dash: [6, 4] } : {}),
    }));
    const options = {
      ...base(panel), series: [{}, ...series], scales: { x: { range: [data.start, data.end] }, y: { range } },
      axes: axes((chart, ticks) => ticks.map((value) => (panel.maximum === 1 && value > 1 ? "" : format(value, panel.unit, null))), panel.unit === "s" ? { incrs: ROUND_SECONDS } : {}),
      hooks: { draw: [overlay(panel)], setCursor: [update] },
    };
    plot(options, [panel.times, ...drawn.map((each) => each.column)], holder);
    const legend = make("ul", { className: stacked ? "legend squares" : "legend" });
    const paint = () => legend.querySelectorAll("i").forEach((mark, index) => { mark.style.background = paintOf(panel, shown[index]); });
    for (const each of shown) {
      const last = each.values.filter((value) => value !== null).pop();
      legend.append(make("li", {}, make("i"), each.name || panel.title, make("b", {}, format(last, panel.unit, panel.decimals))));
    }
    if (panel.more) legend.append(make("li", {}, `and ${panel.more} more`));
    paint();
    redraws.push(paint);
    holder.append(legend);
  }

  function heatmap(panel, holder, card) {
    const most = Math.max(...panel.cells.flat());
    const step = panel.times.length > 1 ? Math.min(...panel.times.slice(1).map((at, place) => at - panel.times[place])) : (data.end - data.start) / 60;
    const label = (bound) => (bound === null ? "more" : format(bound, panel.unit, null));
    const words = (row) => (row === 0 ? `up to ${label(panel.bounds[0])}` : panel.bounds[row] === null ? `above ${label(panel.bounds[row - 1])}` : `${label(panel.bounds[row - 1])} to ${label(panel.bounds[row])}`);
    const rows = panel.bounds.length - (panel.bounds[panel.bounds.length - 1] === null && panel.cells.every((column) => column[column.length - 1] === 0) ? 1 : 0);
    const update = tip(panel, card, (at, top) => {
      const row = Math.floor((1 - top / chart().over.clientHeight) * rows);
      if (row < 0 || row >= rows) return null;
      return `${instant(panel.times[at])} UTC\n${words(row)}: ${short(panel.cells[at][row])}`;
    });
    const cells = (chart) => {
      const { ctx, bbox } = chart;
      const rgb = color("heat");
      ctx.save();
      ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
      panel.cells.forEach((column, place) => {
        const left = chart.valToPos(panel.times[place] - step, "x", true);
        const right = chart.valToPos(panel.times[place], "x", true);
        for (let row = 0; row < rows; row += 1) {
          if (!column[row]) continue;
          const top = chart.valToPos(row + 1, "y", true);
          const bottom = chart.valToPos(row, "y", true);
          ctx.fillStyle = `rgba(${rgb}, ${0.08 + 0.92 * Math.sqrt(column[row] / most)})`;
          ctx.fillRect(left, top, Math.max(1, right - left - devicePixelRatio), Math.max(1, bottom - top - devicePixelRatio));
        }
      });
      ctx.restore();
    };
    const options = {
      ...base(panel), series: [{}, { stroke: "transparent", points: { show: false } }],
      scales: { x: { range: [data.start, data.end] }, y: { range: [0, rows] } },
      axes: axes((chart, ticks) => ticks.map((row) => (row >= 1 && row <= rows ? label(panel.bounds[row - 1]) : "")), {
        splits: () => { const every = Math.ceil(rows / 7); return Array.from({ length: rows }, (_, row) => row + 1).filter((row) => (rows - row) % every === 0); },
      }),
      hooks: { draw: [cells, overlay(panel)], setCursor: [update] },
    };
    const chart = plot(options, [panel.times, panel.times.map(() => 0)], holder);
    holder.append(make("ul", { className: "legend" }, make("li", {}, "0", make("span", { className: "scale" }), `${short(most)} in one cell`)));
  }

  function plot(options, columns, holder) {
    const place = make("div", { className: "chart" });
    holder.append(place);
    let chart = null;
    const draw = () => {
      const width = Math.max(120, Math.floor(place.clientWidth));
      if (chart) chart.destroy();
      chart = new uPlot({ ...options, width }, columns, place);
    };
    draw();
    redraws.push(draw);
    new ResizeObserver(() => { if (Math.floor(place.clientWidth) !== chart.width && place.clientWidth > 0) chart.setSize({ width: Math.max(120, Math.floor(place.clientWidth)), height: CHART_HEIGHT }); }).observe(place);
    return () => chart;
  }

  function stats(panel, holder) {
    const tiles = make("div", { className: panel.stats.length > 1 ? "stats" : "stats few" });
    for (const { name, value } of panel.stats) {
      const shade = panel.thresholds.length ? tone(panel.thresholds, value) : null;
      const tile = make("div", { className: `stat ${shade ?? ""}` }, make("span", {}, name || panel.title), make("b", {}, (MARKS[shade] ?? "") + format(value, panel.unit, panel.decimals)));
      if (panel.minimum !== null && panel.maximum) tile.append(bullet(panel, value, shade));
      tiles.append(tile);
    }
    holder.append(tiles);
  }

  /* A bar from the least to the most possible value, with a mark at the objective. */
  function bullet(panel, value, shade) {
    const at = (each) => (100 * Math.min(1, Math.max(0, (each - panel.minimum) / (panel.maximum - panel.minimum)))).toFixed(2);
    const bar = make("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
    bar.append(make("rect", { width: 100, height: 8, style: "fill: var(--ink); opacity: .12" }), make("rect", { width: at(value), height: 8, style: `fill: var(--${shade ?? "accent"})` }));
    if (panel.line !== null) bar.append(make("rect", { x: Math.max(0, at(panel.line) - 0.5), width: 1, height: 8, style: "fill: var(--ink)" }));
    return bar;
  }

  function grid(panel, holder) {
    const head = make("tr", {}, ...panel.key.map((name) => make("th", { scope: "col" }, name)), ...panel.columns.map((column) => make("th", { scope: "col", className: "number" }, column.name)));
    const rows = panel.rows.map(({ key, values }) => make("tr", {}, ...key.map((name) => make("td", { className: "key", title: name }, name)), ...values.map((value, place) => {
      const column = panel.columns[place];
      const shade = panel.thresholds.length && !column.plain ? tone(panel.thresholds, value) : null;
      return make("td", { className: `number ${shade ?? ""}` }, (MARKS[shade] ?? "") + format(value, column.unit, column.plain ? null : panel.decimals));
    })));
    holder.append(make("div", { className: "scroll", tabindex: "0" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))));
  }

  function nothing(panel, holder) {
    const mark = make("svg", { width: 34, height: 20, viewBox: "0 0 34 20", "aria-hidden": "true" });
    mark.append(make("path", { d: "M1 1v18h32", style: "fill: none; stroke: currentColor; stroke-width: 1.5" }), make("path", { d: "M6 14h24", style: "fill: none; stroke: currentColor; stroke-width: 1.5; stroke-dasharray: 3 3" }));
    holder.append(make("div", { className: "empty" }, mark, make("span", {}, ...prose(panel.empty))));
  }

  function traces(panel, holder) {
    if (!panel.traces || !panel.traces.length) return;
    const links = panel.traces.map(({ id, at, about }) => make("a", { href: data.trace_url.replace("{trace_id}", encodeURIComponent(id)), title: `${about} ${instant(at)} UTC` }, id.slice(0, 8)));
    holder.append(make("p", { className: "traces" }, "Example traces:", ...links));
  }

  function draw(panel, card) {
    const holder = make("div", { className: "body" });
    card.append(holder);
    if (panel.kind === "text") return holder.append(make("pre", {}, panel.commands));
    if (panel.empty) return nothing(panel, holder);
    ({ stat: stats, table: grid, heatmap }[panel.kind] ?? lines)(panel, holder, card);
    traces(panel, holder);
  }

  document.body.append(make("header", {}, make("h1", {}, "ragtrace"), make("p", { className: "faint" }, data.about)));
  document.body.append(make("nav", { "aria-label": "dashboards" }, make("div", {}, ...data.dashboards.map((each) => make("a", { href: `#${each.uid}` }, each.title)))));
  const main = make("main");
  document.body.append(main);
  for (const dashboard of data.dashboards) {
    const section = make("section", { id: dashboard.uid }, make("h2", {}, dashboard.title), make("p", { className: "faint" }, dashboard.description));
    main.append(section);
    for (const { title, panels } of dashboard.sections) {
      const cards = make("div", { className: "grid" });
      section.append(make("h3", {}, title), cards);
      for (const panel of panels) {
        const card = make("article", { className: panel.width > 12 ? "panel wide" : "panel", style: `--width: ${panel.width}` },
          make("h4", {}, panel.title), make("details", {}, make("summary", {}, ...prose(panel.description))));
        cards.append(card);
        draw(panel, card);
      }
    }
  }
  dark.addEventListener("change", () => redraws.forEach((redraw) => redraw()));
  document.documentElement.dataset.drawn = "yes";
})();
