// Draws the graph of a job's tasks, or of groups of them: dagre says where, and each node leads to its row in the table,
// which says the same.
"use strict";

(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const HEIGHT = 46;
  const graph = document.getElementById("graph");
  let drawn = "";

  function element(name, attributes, ...children) {
    const found = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
    found.append(...children);
    return found;
  }

  function node(one, at) {
    const label = element("text", { x: 10, y: 19 }, one.label);
    const below = element("text", { x: 10, y: 37, class: "state" }, one.state);
    const box = element("rect", { width: at.width, height: at.height, rx: 5 });
    const link = element("a", { href: `#${one.row}` }, box, label, " ", below);
    const left = at.x - at.width / 2;
    const top = at.y - at.height / 2;
    return element("g", { class: `node is-${one.status === "not-known" ? "later" : one.status || "later"}`, transform: `translate(${left} ${top})` }, link);
  }

  function draw() {
    const text = graph.dataset.nodes;
    if (text === drawn) return;
    drawn = text;
    const nodes = JSON.parse(text);
    const layout = new dagre.graphlib.Graph().setGraph({ rankdir: "LR", nodesep: 14, ranksep: 40, marginx: 4, marginy: 4 });
    layout.setDefaultEdgeLabel(() => ({}));
    for (const one of nodes) layout.setNode(one.name, { width: Math.max(110, one.label.length * 9 + 20), height: HEIGHT });
    for (const one of nodes) for (const before of one.after) layout.setEdge(before, one.name);
    dagre.layout(layout);
    const { width, height } = layout.graph();
    const svg = element("svg", { width: Math.ceil(width), height: Math.ceil(height), viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}` });
    for (const edge of layout.edges()) {
      const [first, ...rest] = layout.edge(edge).points;
      svg.append(element("path", { d: `M${first.x} ${first.y}` + rest.map((point) => `L${point.x} ${point.y}`).join("") }));
    }
    for (const one of nodes) svg.append(node(one, layout.node(one.name)));
    const focused = document.activeElement && graph.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    graph.replaceChildren(svg);
    if (focused) for (const link of graph.querySelectorAll("a")) if (link.getAttribute("href") === focused) link.focus();
  }

  graph.addEventListener("board:data", draw);
  draw();
})();
