// The page of a profile: which of its profiles are shown, and where.

const page = pageData();
const profiles = page.profiles.map((raw) => new Profile(page, raw));
const planned = profiles.filter((profile) => profile.group === "planned"), measured = profiles.filter((profile) => profile.group === "measured");
const shown = { source: measured.length > 0 ? "measured" : "planned", rank: 0 };
const view = new TimeView(1);
let charts = [];

// What was measured is the first rank's.
function chosenProfiles() {
  const own = measured[shown.rank];
  if (!own || shown.source === "planned") return planned.length > 0 ? [planned[shown.rank]] : [own];
  return shown.source === "measured" ? [own] : [planned[shown.rank], own];
}

function legend(names, ...more) {
  return make("ul", { class: "legend" }, names.map(([name, text]) => make("li", {}, swatch(name), text)), more);
}

function memoryCharts(chosen) {
  const tiers = page.tiers.filter((tier) => chosen.some((profile) => profile.summary.memory[tier]));
  const kinds = page.kinds.filter((kind) => chosen.some((profile) => tiers.some((tier) => (profile.summary.memory[tier] || { by_kind: {} }).by_kind[kind] > 0)));
  const figures = [legend(kinds.map((kind) => [kind, wordsOf(kind)]))];
  for (const tier of tiers) {
    const highest = 1.06 * Math.max(...chosen.map((profile) => (profile.summary.memory[tier] || { peak_bytes: 0 }).peak_bytes));
    for (const profile of chosen) {
      const memory = profile.summary.memory[tier];
      if (!memory) continue;
      const name = chosen.length > 1 ? tier + ", " + profile.group : tier;
      const chart = new MemoryChart(view, profile, profile.tiers[page.tiers.indexOf(tier)], highest,
        "Memory of " + name + " over the step: at most " + sizeText(memory.live_peak_bytes) + " at " + timeText(memory.live_peak_at_seconds) + ". Arrow keys go through moments and buffers.");
      charts.push(chart);
      figures.push(make("figure", {}, make("figcaption", {}, make("h3", {}, name), make("p", {}, "peak " + sizeText(memory.live_peak_bytes) + " live (▾), " + sizeText(memory.peak_bytes) + " held (dashed)")), chart.plot));
    }
  }
  return figures;
}

function laneCharts(chosen) {
  const works = kWorks.filter(([work]) => chosen.some((profile) => profile.lanes.some((lane) => lane.slices.some((slice) => workOf(profile.operation(slice)) === work))));
  const figures = [legend(works, make("li", {}, make("span", { class: "swatch hatched", "aria-hidden": "true" }), "waits"))];
  for (const profile of chosen) {
    const chart = new LanesChart(view, profile, "Lanes over the step, " + profile.group + ": " + profile.lanes.map((lane) => lane.name).join(", ") + ". Arrow keys go through instructions and lanes.");
    charts.push(chart);
    figures.push(make("figure", {}, chosen.length > 1 ? make("figcaption", {}, make("h3", {}, profile.group)) : null, chart.plot));
  }
  return figures;
}

// What a rank has not measured cannot be chosen.
function offerSources() {
  const isMeasured = Boolean(measured[shown.rank]);
  for (const source of ["measured", "both"]) {
    const input = byId("source-" + source);
    if (!input || planned.length === 0) continue;
    input.disabled = !isMeasured;
    byId("source-choice").title = isMeasured ? "" : "Only the first rank has been measured";
  }
  const checked = byId("source-" + (isMeasured ? shown.source : "planned"));
  if (checked) checked.checked = true;
}

function show(keepsView) {
  offerSources();
  const chosen = chosenProfiles();
  charts = [];
  view.charts.clear();
  const end = Math.max(...chosen.map((profile) => Math.max(profile.end, profile.summary.seconds)));
  if (!keepsView || end !== view.end) view.reset(end);
  const tiers = page.tiers.filter((tier) => chosen.some((profile) => profile.summary.memory[tier]));
  fill(byId("figures"), figureTiles(chosen, tiers));
  fill(byId("step-body"), chosen.map((profile) => [laneTable(profile), needsTable(profile)]));
  fill(byId("memory-charts"), memoryCharts(chosen));
  fill(byId("lanes-charts"), laneCharts(chosen));
  fill(byId("peak-body"), chosen.flatMap((profile) => [chosen.length > 1 ? make("h3", { class: "group" }, profile.group) : null,
    make("div", { class: "tiers" }, tiers.filter((tier) => profile.summary.memory[tier]).map((tier) => peakOf(profile, tier)))]));
  fill(byId("traffic-body"), trafficTable(chosen));
  for (const chart of charts) chart.resize();
  for (const listener of view.listeners) listener();
}

function begin() {
  const run = page.run || "a run";
  byId("run").textContent = run;
  document.title = run + " – Strata profile";
  const sources = [];
  if (planned.length > 0) sources.push(["planned", "Planned"]);
  if (measured.length > 0) sources.push(["measured", "Measured"]);
  if (sources.length > 1) sources.push(["both", "Both"]);
  segments(byId("source-choice"), "source", sources, shown.source, (source) => { shown.source = source; show(true); });
  byId("source-choice").hidden = sources.length < 2;
  const names = planned.length > 0 ? planned : measured;
  byId("rank-choice").hidden = names.length < 2;
  names.forEach((profile, rank) => byId("rank").append(make("option", { value: rank }, profile.name || "rank " + rank)));
  byId("rank").addEventListener("change", () => { shown.rank = Number(byId("rank").value); show(false); });
  followTheme(() => { for (const chart of charts) chart.schedule(); });
  zoomBar(byId("memory-bar"), view);
  zoomBar(byId("lanes-bar"), view);
  show(false);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const chart of charts) chart.resize();
  });
  document.documentElement.dataset.ready = "yes";
}

begin();
