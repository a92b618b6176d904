// Two profiles side by side, from their summaries. Every difference is said in words and by a sign, not by colour alone.

const page = pageData();
const [a, b] = page.summaries;
const groups = ["measured", "planned"].filter((group) => a[group].length > 0 && b[group].length > 0);
const shown = { group: groups[0] || null, rank: 0 };

// What to compare, of A and of B: the chosen group where both have it, else whatever there is of each.
function chosen() {
  const of = (summary) => shown.group ? summary[shown.group] : [...summary.measured, ...summary.planned];
  return [of(a)[shown.rank], of(b)[shown.rank]];
}

// Where neither was measured or planned as the other was, that is said.
function note() {
  if (shown.group) return null;
  const kind = (summary) => (summary.measured.length > 0 ? "measured" : "planned");
  return make("p", { class: "lead" }, "A was " + kind(a) + " and B was " + kind(b) + ": what differs may be that.");
}

// How B's figure stands to A's.
function change(first, second, text) {
  if (first === undefined && second === undefined) return "–";
  if (first === undefined) return make("span", { class: "change" }, "only in B");
  if (second === undefined) return make("span", { class: "change" }, "only in A");
  if (first === second) return make("span", { class: "change" }, "equal");
  const more = second > first, part = first > 0 ? ", " + (100 * Math.abs(second - first) / first).toFixed(1) + " %" : "";
  return make("span", { class: "change " + (more ? "up" : "down") }, text(Math.abs(second - first)) + (more ? " more" : " less") + part);
}

function line(name, first, second, text, id, scale) {
  const cell = (value, of) => value === undefined ? make("data", { value: "" }, "none") : figure(value, text, of + "." + id);
  const bars = scale ? [make("span", { class: "pair", "aria-hidden": "true" },
    partsBar([{ value: first || 0, class: "of-a" }], scale), partsBar([{ value: second || 0, class: "of-b" }], scale))] : [];
  return [name, ...bars, cell(first, "a"), cell(second, "b"), change(first, second, text)];
}
const kHeads = ["A", "B", "B against A"];
const most = (...values) => Math.max(1e-12, ...values.filter((value) => value !== undefined));

const namesOf = (first, second) => [...new Set([...Object.keys(first), ...Object.keys(second)])];

function tiles([first, second]) {
  const one = (name, of, text) => make("div", { class: "tile" }, make("h3", {}, name),
    make("p", { class: "value" }, of(first) === undefined ? "–" : text(of(first)), make("small", {}, "A")), make("p", { class: "value" }, of(second) === undefined ? "–" : text(of(second)), make("small", {}, "B")),
    make("p", { class: "note" }, change(of(first), of(second), text)));
  return [one("Step", (profile) => profile.seconds, timeText),
    ...namesOf(first.memory, second.memory).map((tier) => one("Peak of " + tier, (profile) => profile.memory[tier] && profile.memory[tier].peak_bytes, sizeText))];
}

function times([first, second]) {
  const rows = [line("step", first.seconds, second.seconds, timeText, "seconds", most(first.seconds, second.seconds))];
  const scale = most(first.seconds, second.seconds);
  if (first.bound || second.bound) rows.push(line("least by the bound", first.bound && first.bound.seconds, second.bound && second.bound.seconds, timeText, "bound", scale));
  for (const lane of namesOf(first.lanes, second.lanes)) {
    const one = first.lanes[lane] || {}, other = second.lanes[lane] || {};
    rows.push(line(lane + " busy", one.busy_seconds, other.busy_seconds, timeText, "busy." + lane, scale),
      line(lane + " waited", one.waited_seconds, other.waited_seconds, timeText, "waited." + lane, scale));
  }
  return table("A step and its lanes", ["What", "A over B", ...kHeads], rows);
}

function peaks([first, second]) {
  return namesOf(first.memory, second.memory).map((tier) => {
    const one = first.memory[tier] || { by_kind: {} }, other = second.memory[tier] || { by_kind: {} };
    const scale = most(one.peak_bytes, other.peak_bytes);
    const rows = [line("held", one.peak_bytes, other.peak_bytes, sizeText, "peak." + tier, scale), line("live at the peak", one.live_peak_bytes, other.live_peak_bytes, sizeText, "live." + tier, scale)];
    for (const kind of namesOf(one.by_kind, other.by_kind)) {
      if (!one.by_kind[kind] && !other.by_kind[kind]) continue;
      rows.push(line(make("span", {}, swatch(kind), wordsOf(kind)), one.by_kind[kind], other.by_kind[kind], sizeText, "kind." + tier + "." + kind, scale));
    }
    return table("Peak of " + tier, ["Kind", "A over B", ...kHeads], rows);
  });
}

const kMostBuffers = 40;
// What a summary's list of the largest buffers does not reach: it has 100 at most.
const unlisted = (buffers) => buffers.length < 100 ? 0 : buffers[buffers.length - 1].bytes;

// Buffers that only one peak has, or that are of other sizes, the largest differences first.
function buffers([first, second]) {
  return namesOf(first.memory, second.memory).map((tier) => {
    const [listA, listB] = [first, second].map((profile) => (profile.memory[tier] || {}).at_peak || []);
    const [one, other] = [listA, listB].map((list) => new Map(list.map((buffer) => [buffer.name, buffer])));
    const differing = [...new Set([...one.keys(), ...other.keys()])].map((name) => [name, one.get(name), other.get(name)])
      .filter(([, mine, yours]) => mine && yours ? mine.bytes !== yours.bytes : mine ? mine.bytes > unlisted(listB) : yours.bytes > unlisted(listA))
      .sort((x, y) => Math.abs(((y[1] || {}).bytes || 0) - ((y[2] || {}).bytes || 0)) - Math.abs(((x[1] || {}).bytes || 0) - ((x[2] || {}).bytes || 0)));
    if (differing.length === 0) return make("p", {}, tier + ": the largest buffers at the peak are the same in both.");
    const rows = differing.slice(0, kMostBuffers).map(([name, mine, yours]) => line(make("span", { class: "buffer" }, swatch((mine || yours).kind), name), mine && mine.bytes, yours && yours.bytes, sizeText, "buffer." + tier));
    return table(tier + ": " + differing.length + (differing.length > kMostBuffers ? ", the first " + kMostBuffers : "") + ", of the largest 100 of each", ["Buffer", ...kHeads], rows, "buffer-table");
  });
}

function traffic([first, second]) {
  const links = namesOf(first.traffic, second.traffic);
  if (links.length === 0) return make("p", {}, "Neither moves anything between tiers or ranks.");
  const scale = most(...Object.values(first.traffic), ...Object.values(second.traffic));
  return table("Bytes per step", ["Link", "A over B", ...kHeads], links.map((link) => line(wordsOf(link), first.traffic[link], second.traffic[link], sizeText, "traffic." + link, scale)));
}

function show() {
  const both = chosen();
  fill(byId("figures"), tiles(both));
  fill(byId("step-body"), note(), times(both));
  fill(byId("memory-body"), peaks(both));
  fill(byId("buffers-body"), buffers(both));
  fill(byId("traffic-body"), traffic(both));
}

// Ranks that both have, in the group that is shown.
function offerRanks() {
  const both = [a, b].map((summary) => shown.group ? summary[shown.group] : []);
  const count = Math.max(1, Math.min(both[0].length, both[1].length));
  fill(byId("rank"), Array.from({ length: count }, (_, rank) => make("option", { value: rank, selected: rank === shown.rank }, (both[0][rank] || {}).name || "rank " + rank)));
  byId("rank-choice").hidden = count < 2;
}

function begin() {
  const nameOf = (summary, folder) => folder + (summary.run ? " (" + summary.run + ")" : "");
  fill(byId("run"), make("span", { class: "line" }, "A: " + nameOf(a, page.folders[0])), make("span", { class: "line" }, "B: " + nameOf(b, page.folders[1])));
  document.title = page.folders.join(" and ") + " – Strata profiles compared";
  segments(byId("source-choice"), "source", groups.map((group) => [group, group === "planned" ? "Planned" : "Measured"]), shown.group, (group) => { shown.group = group; shown.rank = 0; offerRanks(); show(); });
  byId("source-choice").hidden = groups.length < 2;
  offerRanks();
  byId("rank").addEventListener("change", () => { shown.rank = Number(byId("rank").value); show(); });
  followTheme(() => {});
  show();
  document.documentElement.dataset.ready = "yes";
}

begin();
