// What is wrong with a page as it is seen: text of a drawing that is outside of it or over other text, text wider than
// what holds it, and text too faint to be read (a contrast below 4.5, that of WCAG AA).
const box = (one) => one.getBoundingClientRect();
const texts = [...document.querySelectorAll("figure svg")].map((svg) => [box(svg), [...svg.querySelectorAll("text")]]);
const cut = texts.flatMap(([frame, found]) =>
  found.filter((text) => {
    const own = box(text);
    return own.left < frame.left - 1 || own.right > frame.right + 1 || own.top < frame.top - 1 || own.bottom > frame.bottom + 1;
  }),
);
const covered = texts.flatMap(([, found]) =>
  found.filter((text, i) =>
    found.slice(i + 1).some((other) => {
      const [a, b] = [box(text), box(other)];
      return a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
    }),
  ),
);
const wide = [...document.querySelectorAll("p, h2, h3, h4, .card, .legend")].filter((one) => one.scrollWidth > one.clientWidth + 1);
const light = (colour) => {
  const [red, green, blue] = colour
    .match(/[\d.]+/g)
    .map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const back = light(getComputedStyle(document.body).backgroundColor);
const kinds = ["body", ".note", "td", "th", "figcaption", "svg text", ".card p", "small", ".legend", "summary"];
const faint = kinds.filter((name) => {
  const style = getComputedStyle(document.querySelector(name));
  const own = light(name === "svg text" ? style.fill : style.color);
  return (Math.max(own, back) + 0.05) / (Math.min(own, back) + 0.05) < 4.5;
});
const words = (found) => found.map((one) => one.textContent);
return { cut: words(cut), covered: words(covered), wide: words(wide), faint };
