/**
 * Elements: makes them, finds them, and brings a tree up to date.
 * In: tag names, attributes and children. Out: nodes. Text always goes in as text, never as markup.
 */
const SVG = "http://www.w3.org/2000/svg";

/** Finds the element that carries a data-test name. */
export const find = (test) => document.querySelector(`[data-test="${test}"]`);

/** Makes an HTML element. A function among the attributes listens to the event of that name. */
export const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** Makes an SVG element. */
export const draw = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) set(node, name, value);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Sets one attribute: false and null take it away, true sets it empty. */
export function set(node, name, value) {
  if (typeof value === "function") node.addEventListener(name, value);
  else if (value === false || value === null || value === undefined) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

/** Writes text only where it differs, so that a quiet page costs nothing. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The words of an element as they are seen. */
export const seen = (node) => node.textContent.replace(/\s+/g, " ").trim();

/** Makes an old tree equal to a fresh one and keeps its nodes, its focus and its scroll position. */
export function morph(old, fresh) {
  morphAttributes(old, fresh);
  const wanted = [...fresh.childNodes];
  wanted.forEach((node, i) => morphChild(old, old.childNodes[i], node));
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}

function morphAttributes(old, fresh) {
  for (const name of old.getAttributeNames()) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const name of fresh.getAttributeNames()) {
    if (old.getAttribute(name) !== fresh.getAttribute(name)) old.setAttribute(name, fresh.getAttribute(name));
  }
}

function morphChild(parent, old, fresh) {
  if (!old) parent.append(fresh);
  else if (old.nodeName !== fresh.nodeName) old.replaceWith(fresh);
  else if (fresh.nodeType !== Node.TEXT_NODE) morph(old, fresh);
  else if (old.data !== fresh.data) old.data = fresh.data;
}

/** Fills a select or a datalist with options, but only if they are others than before. */
export function offer(list, values) {
  const old = [...list.children].map((option) => option.value);
  if (old.length === values.length && old.every((value, i) => value === values[i])) return;
  const chosen = list.value;
  list.replaceChildren(...values.map((value) => make("option", { value }, value)));
  if (values.includes(chosen)) list.value = chosen;
}
