// What a page of runs can do beyond being read: tables sort, methods switch on and off, charts say their values, a
// slider goes through the reductions. The page is whole without it.
"use strict";

const made = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const drawn = (tag, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
const short = (value) => {
  const text = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(4));
  return text.replace("-", "−");
};

// The first number of a cell; what has none comes last.
const numberIn = (cell) => {
  const found = cell.textContent.replaceAll(",", "").replace("−", "-").match(/-?\d*\.?\d+(e[-+]?\d+)?/);
  return found ? Number(found[0]) : NaN;
};

function sortable(table) {
  const body = table.tBodies[0];
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = made("button", { type: "button" }, ...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending";
      const rows = [...body.rows];
      const words = rows.every((row) => Number.isNaN(numberIn(row.cells[column]))) || column === 0;
      const key = (row) => (words ? row.cells[column].textContent : numberIn(row.cells[column]));
      rows.sort((a, b) => {
        const [one, two] = [key(a), key(b)];
        if (words) return up ? one.localeCompare(two) : two.localeCompare(one);
        if (Number.isNaN(one) || Number.isNaN(two)) return Number.isNaN(one) - Number.isNaN(two);
        return up ? one - two : two - one;
      });
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      body.append(...rows);
    });
  });
}

function switches(section) {
  const list = section.querySelector(".switches");
  if (!list) return;
  for (const item of [...list.children]) {
    const method = item.dataset.method;
    const button = made("button", { type: "button", "aria-pressed": "true", "data-method": method, style: item.getAttribute("style") }, ...item.childNodes);
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", on);
      for (const part of section.querySelectorAll("[data-series]"))
        if (part.dataset.series === method) part.classList.toggle("off", !on);
    });
    item.replaceWith(button);
  }
}

function tip(figure, svg, event, lines) {
  let box = figure.querySelector(".tip");
  if (!box) figure.append((box = made("div", { class: "tip" })));
  box.replaceChildren(
    ...lines.map(([colour, words]) => {
      const line = made("div", {}, words);
      if (colour) line.prepend(made("i", { style: `--c:${colour}` }));
      return line;
    }),
  );
  const frame = figure.getBoundingClientRect();
  const left = event.clientX - frame.left + 14;
  const overflow = left + box.offsetWidth > frame.width;
  box.style.left = `${Math.max(0, overflow ? left - box.offsetWidth - 28 : left)}px`;
  box.style.top = `${svg.offsetTop + 16}px`;
}

function place(svg, event) {
  const frame = svg.getBoundingClientRect();
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  return [((event.clientX - frame.left) / frame.width) * width, ((event.clientY - frame.top) / frame.height) * height];
}

function hover(svg, figure, answer) {
  const show = (event) => {
    const lines = answer(...place(svg, event));
    if (lines) tip(figure, svg, event, lines);
    else hide();
  };
  const hide = () => {
    figure.querySelector(".tip")?.remove();
    svg.querySelectorAll(".cursor").forEach((mark) => mark.remove());
  };
  svg.addEventListener("pointermove", show);
  svg.addEventListener("pointerdown", show);
  svg.addEventListener("pointerleave", hide);
}

function chart(figure, data) {
  const svg = figure.querySelector("svg");
  const on = (one) => ![...svg.querySelectorAll("g.off")].some((part) => part.dataset.series === one.method);
  const said = (one, i) => [one.colour, one.notes ? one.notes[i] : `${one.name} ${short(one.y[i])}`];
  const nearest = (one, x, y) => {
    let best = 0;
    const far = (i) => Math.abs(one.px[i] - x) + (y === null ? 0 : Math.abs(one.py[i] - y));
    one.px.forEach((_, i) => far(i) < far(best) && (best = i));
    return [best, far(best)];
  };
  hover(svg, figure, (x, y) => {
    svg.querySelectorAll(".cursor").forEach((mark) => mark.remove());
    const shown = data.series.filter((one) => one.px.length && on(one));
    if (!shown.length) return null;
    if (!data.byX) {
      const found = shown.map((one) => [one, ...nearest(one, x, y)]).sort((a, b) => a[2] - b[2])[0];
      return found[2] < 40 ? [said(found[0], found[1])] : null;
    }
    const at = shown.map((one) => nearest(one, x, null)[0]);
    const middle = shown[0].px[at[0]];
    svg.append(drawn("path", { class: "cursor", d: `M${middle} 12V212` }));
    return [[null, `${data.x} ${short(shown[0].x[at[0]])}`], ...shown.map((one, i) => said(one, at[i]))];
  });
}

function histogram(figure, data) {
  const svg = figure.querySelector("svg");
  const [left, width, top, height] = data.bars;
  let frame = data.frames[data.frames.length - 1];
  const draw = () => {
    for (const name of ["before", "after"])
      svg.querySelectorAll(`g.${name} rect`).forEach((bar, i) => {
        const tall = (height * Math.log10(1 + frame[name][i])) / data.top;
        bar.setAttribute("y", top + height - tall);
        bar.setAttribute("height", tall);
      });
    figure.querySelector("figcaption").textContent = `reduction before epoch ${frame.epoch}`;
  };
  hover(svg, figure, (x) => {
    const i = Math.floor((x - left) / width);
    if (i < 0 || i >= frame.before.length) return null;
    const range = `ΔF from ${short(data.edges[i])} to ${short(data.edges[i + 1])} nats`;
    return [[null, range], [null, `${frame.before[i].toLocaleString("en")} weights before`], [null, `${frame.after[i].toLocaleString("en")} kept`]];
  });
  if (data.frames.length < 2) return;
  figure.previousElementSibling.remove(); // the first reduction, which the slider reaches too
  const input = made("input", { type: "range", min: 0, max: data.frames.length - 1, value: data.frames.length - 1, "aria-label": "reduction" });
  input.addEventListener("input", () => {
    frame = data.frames[input.value];
    draw();
  });
  figure.append(made("label", { class: "slider" }, "first", input, "last"));
}

document.querySelectorAll("table.sortable").forEach(sortable);
document.querySelectorAll("section").forEach(switches);
document.querySelectorAll("figure.chart").forEach((figure) => {
  const data = JSON.parse(figure.querySelector("script").textContent);
  (data.frames ? histogram : chart)(figure, data);
});
