"use strict";
// What the page knows comes from #data; text of the pool is written by textContent alone, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const at = data.start.slice(); // places of the chosen trust, number of queries and epsilon
const cells = new Map();
const byId = (id) => document.getElementById(id);
const cellAt = (t, q, e) => cells.get([t, q, e].join());
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const range = (one) => `${Math.round(100 * one[1])}–${Math.round(100 * one[2])} %`;
const many = (n) => n.toLocaleString("en");
const count = (n, noun) => `${many(n)} ${n === 1 ? noun.replace(/ies$/, "y").replace(/s$/, "") : noun}`;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function write(id, text) { byId(id).textContent = text; }

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawn(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// The choice and what to expect of it

function choose(t, q, e) {
  at.splice(0, 3, t, q, e);
  byId("epsilon").value = e;
  byId("queries").value = q;
  document.querySelector(`#trusts input[value="${t}"]`).checked = true;
  write("written", ""); // it was about another choice
  show();
  drawMap();
}

function show() {
  const [t, q, e] = at;
  const epsilon = data.epsilons[e], queries = data.queries[q], trust = data.trusts[t], one = cellAt(t, q, e);
  write("epsilon-value", String(epsilon));
  byId("epsilon").setAttribute("aria-valuetext", `epsilon ${epsilon}`);
  write("epsilon-note", `${one && one.odds ? one.odds : ""} ${budgetNote(epsilon)}`.trim());
  write("queries-value", many(queries));
  byId("queries").setAttribute("aria-valuetext", count(queries, "queries"));
  write("queries-note", `Clusters of the pool that the records vote on, about ${count(Math.round(data.pool / queries), "samples")} each.`);
  const parties = trust.name === "distributed" && data.parties ? ` Predicted for ${data.parties} parties.` : "";
  const refused = data.trusts.filter((one) => one.refused).map((one) => ` Not here: ${one.refused}.`);
  write("trust-note", trust.sees + parties + refused.join(""));
  showBest(t, e);
  const known = one && one.student;
  write("student", known ? percent(one.student[0]) : one ? "–" : "…");
  write("student-range", known ? `${range(one.student)} in four plausible tasks of five` : one ? one.refused : "being computed");
  write("labels", known ? percent(one.labels[0]) : "–");
  const released = one && one.noise !== undefined;
  write("noise", released ? `± ${one.noise < 10 ? one.noise.toFixed(1) : many(Math.round(one.noise))}` : "–");
  write("votes", released ? (one.votes < 10 ? one.votes.toFixed(1) : many(Math.round(one.votes))) : "–");
  write("mechanism", released ? one.mechanism : "–");
  drawGauge(known && one.student);
  drawAgainst(released && one);
  write("promise", released ? one.promise : "");
  write("lines", lines(epsilon, queries, trust.name));
  byId("write").disabled = Boolean(one && !released);
  drawCurves();
  showGrid();
}

function budgetNote(epsilon) {
  const own = data.ledger && data.ledger.budgets.find((book) => book.name === data.ledger.own);
  if (!own) return "";
  const left = Number(own.left);
  return epsilon <= left ? `The budget “${own.name}” has ε ${own.left} left, which pays for it.` : `The budget “${own.name}” has only ε ${own.left} left.`;
}

function showBest(t, e) {
  const best = bestQueries(t, e), button = byId("best");
  button.hidden = best === null || best === at[1];
  if (!button.hidden) button.textContent = `Take the best: ${many(data.queries[best])}`;
}

function bestQueries(t, e) {
  const row = data.queries.map((_, q) => cellAt(t, q, e));
  if (row.some((one) => !one)) return null;
  const means = row.map((one) => (one.student ? one.student[0] : -1));
  return means.indexOf(Math.max(...means));
}

function lines(epsilon, queries, trust) {
  const settings = trust === "distributed" && data.parties ? `{ name = "distributed", parties = ${data.parties} }` : `"${trust}"`;
  return `[privacy]\nepsilon = ${epsilon}\ntrust = ${settings}\n\n[method]\nnum_queries = ${queries}`;
}

function drawGauge(student) {
  const place = (share) => 4 + 392 * share, gauge = byId("gauge");
  const parts = [drawn("rect", { class: "track", x: 4, y: 14, width: 392, height: 8, rx: 4 })];
  if (student) {
    const [mean, low, high] = student;
    parts.push(drawn("rect", { class: "band", x: place(low), y: 8, width: Math.max(2, place(high) - place(low)), height: 20, rx: 5 }));
    parts.push(drawn("circle", { class: "dot", cx: place(mean), cy: 18, r: 7 }));
  }
  const marks = [[data.commonest, "commonest class", "start"], [data.attainable[0], "with true labels", "end"]];
  for (const [share, name, anchor] of marks) {
    parts.push(drawn("line", { class: "mark", x1: place(share), x2: place(share), y1: 6, y2: 30 }));
    parts.push(drawn("text", { x: place(share) + (anchor === "end" ? 4 : -4), y: 44, "text-anchor": anchor }, `${name} ${Math.round(100 * share)} %`));
  }
  gauge.replaceChildren(...parts);
  gauge.setAttribute("aria-label", student ? `predicted accuracy ${percent(student[0])}, ${range(student)}` : "no prediction yet");
}

function drawAgainst(one) {
  const parts = [];
  if (one) {
    const most = Math.max(one.votes, one.noise), width = (n) => Math.max(2, (280 * n) / most);
    for (const [kind, name, value, y] of [["votes", "votes of a query", one.votes, 2], ["noise", "their noise", one.noise, 18]]) {
      parts.push(drawn("rect", { class: kind, x: 112, y, width: width(value), height: 9, rx: 3 }));
      parts.push(drawn("text", { x: 104, y: y + 9, "text-anchor": "end" }, name));
    }
  }
  byId("against").replaceChildren(...parts);
}

// Curves and the table of all choices

function drawCurves() {
  const svg = byId("curves"), width = Math.max(300, Math.min(560, svg.clientWidth || 520));
  const [height, left, bottom, top, right] = [300, 44, 42, 12, 78];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const logs = data.epsilons.map(Math.log), span = logs[logs.length - 1] - logs[0] || 1;
  const x = (e) => left + ((logs[e] - logs[0]) / span) * (width - left - right);
  const y = (share) => height - bottom - share * (height - bottom - top);
  const parts = [];
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    parts.push(drawn("line", { class: "rule", x1: left, x2: width - right, y1: y(share), y2: y(share) }));
    parts.push(drawn("text", { x: left - 8, y: y(share) + 4, "text-anchor": "end" }, `${100 * share} %`));
  }
  data.epsilons.forEach((epsilon, e) => parts.push(drawn("text", { x: x(e), y: height - bottom + 18, "text-anchor": "middle" }, String(epsilon))));
  parts.push(drawn("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, "ε"));
  const dashes = ["", "7 4", "2 3", "9 3 2 3"];
  const order = data.trusts.map((_, t) => t).sort((a, b) => (a === at[0]) - (b === at[0]));
  const ends = [];
  for (const t of order) {
    const known = data.epsilons.map((_, e) => [e, cellAt(t, at[1], e)]).filter(([, one]) => one && one.student);
    if (!known.length) continue;
    const here = t === at[0] ? " here" : "";
    if (here) {
      const outline = [...known.map(([e, one]) => [x(e), y(one.student[2])]), ...known.reverse().map(([e, one]) => [x(e), y(one.student[1])])];
      known.reverse();
      parts.push(drawn("polygon", { class: "band", points: outline.join(" ") }));
    }
    parts.push(drawn("polyline", { class: `curve${here}`, "stroke-dasharray": dashes[t], points: known.map(([e, one]) => [x(e), y(one.student[0])]).join(" ") }));
    const [e, last] = known[known.length - 1];
    ends.push({ t, here, x: x(e) + 8, y: y(last.student[0]) + 4 });
  }
  ends.sort((a, b) => a.y - b.y).forEach((end, i) => {
    if (i) end.y = Math.max(end.y, ends[i - 1].y + 14);
    parts.push(drawn("text", { class: end.here.trim(), x: end.x, y: end.y }, data.trusts[end.t].name));
  });
  const now = cellAt(...at);
  if (now && now.student) parts.push(drawn("circle", { class: "dot", cx: x(at[2]), cy: y(now.student[0]), r: 6 }));
  svg.replaceChildren(...parts);
  const words = `Predicted accuracy of the student against ε, with ${count(data.queries[at[1]], "queries")}`;
  svg.setAttribute("aria-label", words);
  write("curves-note", `${words}. The band holds four plausible tasks of five.`);
}

function makeGrid() {
  const head = element("tr", {}, element("td", { class: "corner" }, "queries \u2193  ε \u2192"));
  data.epsilons.forEach((epsilon) => head.append(element("th", { scope: "col" }, String(epsilon))));
  document.querySelector("#grid thead").append(head);
  data.queries.forEach((size, q) => {
    const row = element("tr", {}, element("th", { scope: "row" }, many(size)));
    data.epsilons.forEach((_, e) => {
      const button = element("button", { type: "button", id: `cell-${q}-${e}` });
      button.addEventListener("click", () => choose(at[0], q, e));
      row.append(element("td", {}, button));
    });
    document.querySelector("#grid tbody").append(row);
  });
}

function showGrid() {
  const room = Math.max(data.attainable[0] - data.commonest, 1e-6);
  data.epsilons.forEach((epsilon, e) => {
    const best = bestQueries(at[0], e);
    data.queries.forEach((size, q) => {
      const button = byId(`cell-${q}-${e}`), one = cellAt(at[0], q, e), known = one && one.student;
      button.textContent = known ? Math.round(100 * one.student[0]) : one ? "–" : "·";
      button.className = known ? (q === best ? "best" : "") : "empty";
      button.style.setProperty("--gain", known ? Math.min(1, Math.max(0, (one.student[0] - data.commonest) / room)).toFixed(2) : 0);
      button.setAttribute("aria-pressed", String(q === at[1] && e === at[2]));
      const told = known ? `${percent(one.student[0])} right` : one ? one.refused : "not computed yet";
      button.setAttribute("aria-label", `${count(size, "queries")}, epsilon ${epsilon}: ${told}`);
    });
  });
  write("grid-note", `Per cent right by number of queries and ε, under ${data.trusts[at[0]].name} trust. Underlined: the best number of queries for that ε.`);
  const done = cells.size;
  write("progress", done < data.total ? `${done} of ${data.total} choices computed; the one you look at comes first.` : "");
}

// The map

const canvas = byId("map"), pictures = new Map(), map = data.map;
let pointed = null, waiting = false;

function owners() { return map.owners[data.queries[at[1]]]; }

function placeOf(i) {
  const pad = 18, [px, py] = map.points[i];
  return [pad + (px / 1000) * (canvas.clientWidth - 2 * pad), pad + (1 - py / 1000) * (canvas.clientHeight - 2 * pad)];
}

function hue(query) { return `hsl(${(query * 137.5) % 360} 55% ${colour("--light")})`; }

function drawMap() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; paint(); });
}

function paint() {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d"), owner = owners(), held = pointed === null ? null : owner[pointed];
  const dim = Number(colour("--dim")), size = Math.max(3, Math.min(6, width / 110));
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  map.points.forEach((_, i) => {
    const [x, y] = placeOf(i);
    pen.globalAlpha = held === null || owner[i] === held ? 0.85 : dim;
    pen.fillStyle = hue(owner[i]);
    pen.beginPath();
    pen.arc(x, y, size, 0, 7);
    pen.fill();
  });
  pen.globalAlpha = held === null ? 1 : 0.55;
  if (map.kind === "images") typical(owner).forEach(([i, query]) => stamp(pen, i, query, width));
  pen.globalAlpha = 1;
  if (pointed !== null) {
    const [x, y] = placeOf(pointed);
    pen.strokeStyle = colour("--ink");
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(x, y, size + 4, 0, 7);
    pen.stroke();
  }
}

// Of each query the sample in the middle of it, as far as they do not hide each other.
function typical(owner) {
  const sums = new Map();
  owner.forEach((query, i) => {
    const sum = sums.get(query) || { x: 0, y: 0, n: 0 };
    const [x, y] = placeOf(i);
    sums.set(query, { x: sum.x + x, y: sum.y + y, n: sum.n + 1 });
  });
  const nearest = new Map();
  owner.forEach((query, i) => {
    const sum = sums.get(query), [x, y] = placeOf(i);
    const far = (x - sum.x / sum.n) ** 2 + (y - sum.y / sum.n) ** 2;
    if (map.samples[i] && (!nearest.has(query) || far < nearest.get(query).far)) nearest.set(query, { i, far, n: sum.n });
  });
  const kept = [], room = canvas.clientWidth / 15;
  for (const [query, { i }] of [...nearest].sort((a, b) => b[1].n - a[1].n)) {
    const [x, y] = placeOf(i);
    if (kept.every(([j]) => Math.hypot(placeOf(j)[0] - x, placeOf(j)[1] - y) > room)) kept.push([i, query]);
  }
  return kept;
}

function stamp(pen, i, query, width) {
  const picture = pictureOf(i), side = Math.max(20, width / 21), [x, y] = placeOf(i);
  if (!picture.complete || !picture.naturalWidth) return;
  const scale = side / Math.max(picture.naturalWidth, picture.naturalHeight);
  const w = picture.naturalWidth * scale, h = picture.naturalHeight * scale;
  pen.imageSmoothingEnabled = false;
  pen.fillStyle = hue(query);
  pen.fillRect(x - w / 2 - 2.5, y - h / 2 - 2.5, w + 5, h + 5);
  pen.drawImage(picture, x - w / 2, y - h / 2, w, h);
}

function pictureOf(i) {
  if (!pictures.has(i)) {
    const made = new Image();
    made.onload = drawMap;
    made.src = map.samples[i];
    pictures.set(i, made);
  }
  return pictures.get(i);
}

function point(i) {
  pointed = i;
  const card = byId("card");
  card.hidden = i === null;
  if (i !== null) {
    const owner = owners(), size = owner.filter((query) => query === owner[i]).length;
    const told = `Query ${owner[i] + 1} of ${many(data.queries[at[1]])}: ${count(size, "samples")} on the map belong to it.`;
    card.replaceChildren(...shown(map.samples[i]), element("p", { class: "soft" }, owner[i] < 0 ? "" : told));
    const [x, y] = placeOf(i), wide = canvas.clientWidth, high = canvas.clientHeight;
    card.style.left = `${Math.max(0, Math.min(x + 14, wide - card.offsetWidth))}px`;
    card.style.top = `${y + 16 + card.offsetHeight > high ? Math.max(0, y - 16 - card.offsetHeight) : y + 16}px`;
  }
  drawMap();
}

function shown(sample) {
  if (sample === null) return [element("p", { class: "soft" }, "This page travels light: the sample is not in it.")];
  if (map.kind === "images") return [element("img", { src: sample, alt: "the pool sample" })];
  if (map.kind === "text") return [element("p", {}, sample)];
  const rows = sample.map(([name, cell]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, cell)));
  return [element("table", {}, element("tbody", {}, ...rows))];
}

function nearestTo(x, y, reach, allowed = () => true) {
  let best = null, least = reach ** 2;
  map.points.forEach((_, i) => {
    const [px, py] = placeOf(i), far = (px - x) ** 2 + (py - y) ** 2;
    if (far < least && allowed(px - x, py - y)) [best, least] = [i, far];
  });
  return best;
}

function pointAt(event) {
  const box = canvas.getBoundingClientRect();
  const found = nearestTo(event.clientX - box.left, event.clientY - box.top, 26);
  if (found !== pointed) point(found);
}

canvas.addEventListener("pointermove", pointAt);
canvas.addEventListener("pointerdown", pointAt);
canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") point(null); });
canvas.addEventListener("blur", () => point(null));
canvas.addEventListener("keydown", (event) => {
  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (event.key === "Escape") point(null);
  if (!(event.key in ways)) return;
  event.preventDefault();
  const [wx, wy] = ways[event.key], middle = [canvas.clientWidth / 2, canvas.clientHeight / 2];
  const ahead = (dx, dy) => dx * wx + dy * wy > Math.abs(dx * wy) + Math.abs(dy * wx) && dx * wx + dy * wy > 0.5;
  const found = pointed === null ? nearestTo(...middle, 1e6) : nearestTo(...placeOf(pointed), 1e6, ahead);
  if (found === null) return;
  point(found);
  write("said", byId("card").textContent || "a picture");
});

// The ledger

function showLedger() {
  const book = data.ledger;
  if (!book) return;
  byId("ledger").hidden = false;
  write("ledger-said", book.said);
  for (const one of book.budgets) {
    const bar = element("i");
    bar.style.width = `${100 * one.share}%`;
    byId("budgets").append(
      element("h3", {}, `${one.name}: ε ${one.spent} of ${one.epsilon} spent, ${one.left} left`),
      element("p", { class: "soft" }, one.terms),
      element("div", { class: "meter" }, bar),
    );
    if (!one.releases.length) {
      byId("budgets").append(element("p", { class: "soft" }, "Nothing was released yet."));
      continue;
    }
    const heads = ["time (UTC)", "release", "trust", "mechanism", "cost", "total"];
    const head = element("tr", {}, ...heads.map((name, i) => element("th", { scope: "col", class: i > 3 ? "n" : "" }, name)));
    const rows = one.releases.map((entry) =>
      element("tr", {}, ...["time", "release", "trust", "mechanism", "cost", "spent"].map((key, i) => element("td", { class: i > 3 ? "n" : "" }, entry[key]))),
    );
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    byId("budgets").append(element("div", { class: "wide" }, table));
  }
}

// Between page and command

function take(found) { for (const one of found) cells.set(one.at.join(), one); }

async function poll() {
  let pause = 400;
  try {
    const answer = await fetch(`cells?have=${cells.size}&at=${at.join()}`);
    const found = (await answer.json()).cells;
    take(found);
    if (found.length) show();
  } catch {
    write("progress", "The command has ended; what was computed stays here.");
    pause = 5000;
  }
  if (cells.size < data.total) setTimeout(poll, pause);
}

async function writeJob() {
  try {
    const answer = await fetch("job", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ at }) });
    const told = await answer.json();
    write("written", told.file ? `Written: ${told.file}, beside ${data.file}. Next: recordwise check ${told.file}` : told.refused);
  } catch {
    write("written", "The command has ended: nothing was written.");
  }
}

// Begin

write("name", data.name);
write("about", `${count(data.pool, "samples")} in the public pool, ${count(data.classes, "classes")}, ${count(data.records, "records")} that will vote, ${data.votes_per_record === 1 ? "once" : `for ${data.votes_per_record} queries`} each. Nothing private was read.`);
write("map-note", `Near on the map is near for the encoder; distances between groups mean nothing. Colours are queries${map.kind === "images" ? ", pictures the sample in the middle of one" : ""}. Point at a sample, or use the arrow keys.${map.left_out ? ` ${count(map.left_out, "samples")} are left out.` : ""}`);
canvas.setAttribute("aria-label", `map of ${count(map.points.length, "samples")} of the pool`);
write("foot", `Predicted from ${data.basis}. The planner's own simulations of this job on its pool. This page loads nothing from anywhere.`);
data.trusts.forEach((trust, t) => {
  const input = element("input", { type: "radio", name: "trust", value: t, id: `trust-${trust.name}` });
  input.disabled = Boolean(trust.refused);
  input.addEventListener("change", () => choose(t, at[1], at[2]));
  byId("trusts").append(element("label", {}, input, trust.name));
});
byId("epsilon").max = data.epsilons.length - 1;
byId("queries").max = data.queries.length - 1;
byId("epsilon").addEventListener("input", (event) => choose(at[0], at[1], Number(event.target.value)));
byId("queries").addEventListener("input", (event) => choose(at[0], Number(event.target.value), at[2]));
byId("best").addEventListener("click", () => choose(at[0], bestQueries(at[0], at[2]), at[2]));
byId("write").hidden = data.travels;
byId("write").addEventListener("click", writeJob);
new ResizeObserver(() => { drawMap(); drawCurves(); }).observe(canvas);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMap);
take(data.cells);
makeGrid();
showLedger();
choose(...at);
if (!data.travels) poll();
