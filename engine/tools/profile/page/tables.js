// What the charts show as figures: all of them are those of summary.json, to the last digit.

function tile(name, lines, note) {
  return make("div", { class: "tile" }, make("h3", {}, name), lines.map(([value, text]) => make("p", { class: "value" }, value, text ? make("small", {}, text) : null)),
    note ? make("p", { class: "note" }, note) : null);
}

// The step in a few large figures. `profiles`: planned, measured or both.
function figureTiles(profiles, tiers) {
  const labelled = (cell) => profiles.map((profile) => [cell(profile), profiles.length > 1 ? profile.group : ""]).filter(([value]) => value);
  const tiles = [tile("Step", labelled((profile) => figure(profile.summary.seconds, timeText, "seconds")))];
  const bounds = profiles.filter((profile) => profile.summary.bound && profile.summary.bound.seconds > 0);
  if (bounds.length > 0) {
    const lines = bounds.map((profile) => [figure(profile.summary.seconds / profile.summary.bound.seconds, (value) => value.toFixed(2) + " ×", "to-bound"), bounds.length > 1 ? profile.group : ""]);
    tiles.push(tile("Step to bound", lines, "no plan of this run takes less than " + timeText(bounds[0].summary.bound.seconds) + ", limited by " + bounds[0].summary.bound.words));
  }
  tiles.push(tile("Compute busy", labelled((profile) => {
    const lane = profile.summary.lanes.compute;
    return lane && figure(lane.busy_seconds / wholeOf(lane, profile.summary.seconds), (part) => shareText(part, 1), "compute-busy");
  })));
  for (const tier of tiers) {
    const first = profiles.find((profile) => profile.summary.memory[tier]);
    const budget = first.summary.memory[tier].budget_bytes;
    tiles.push(tile("Peak of " + tier, labelled((profile) => profile.summary.memory[tier] && figure(profile.summary.memory[tier].peak_bytes, sizeText, "peak")),
      budget ? "of " + sizeText(budget) + " that it may have" : null));
  }
  return tiles;
}

// What a lane's shares are of: a step, or longer where the lane ran on under the next one.
const wholeOf = (lane, seconds) => Math.max(seconds, lane.busy_seconds + lane.waited_seconds);

// By lane: busy, and what it waited for. Lanes that one has and the other has not are of both.
function laneTable(profile) {
  const { lanes, seconds } = profile.summary;
  const rows = profile.lanes.map(({ name }) => {
    const lane = lanes[name];
    const waits = Object.entries(lane.waited_for).sort((a, b) => b[1] - a[1]);
    const known = waits.reduce((sum, [, waited]) => sum + waited, 0);
    const whole = wholeOf(lane, seconds);
    const parts = [{ class: "busy", value: lane.busy_seconds, title: "busy " + timeText(lane.busy_seconds) },
      ...waits.map(([operation, waited]) => ({ class: "waiting", colour: "var(--" + workOf(operation) + ")", value: waited, title: "waits for " + operation + " " + timeText(waited) })),
      { class: "waiting", value: lane.waited_seconds - known, title: "idle " + timeText(lane.waited_seconds - known) }];
    return [name, partsBar(parts, whole), figure(lane.busy_seconds, timeText, "busy"), figure(lane.busy_seconds / whole, (part) => shareText(part, 1), "busy-share"),
      figure(lane.waited_seconds, timeText, "waited"),
      make("span", { class: "list" }, waits.slice(0, 4).map(([operation, waited]) => make("span", {}, operation + " ", figure(waited, timeText, "waited-for." + operation)))),
      figure(lane.slices, String, "slices")];
  });
  const box = table("Lanes, " + profile.group, ["Lane", "Busy, and waiting for", "Busy", "of step", "Waited", "Waited most for", "Instructions"], rows, "lanes-table");
  box.dataset.group = profile.group;
  return box;
}

// What each resource would take for this plan if nothing else took time.
function needsTable(profile) {
  const { needs, seconds } = profile.summary;
  if (!needs) return null;
  const resources = ["compute", "h2d", "d2h", "host_memory", "nvme"].filter((name) => needs[name] > 0);
  const most = Math.max(...resources.map((name) => needs[name]));
  const rows = resources.map((name) => [wordsOf(name), partsBar([{ class: needs[name] === most ? "busy" : "waiting", value: needs[name] }], seconds),
    figure(needs[name], timeText, "needs." + name), figure(needs[name] / seconds, (part) => shareText(part, 1), "needs-share." + name)]);
  const box = table("What this plan needs of each resource by itself, " + profile.group, ["Resource", "of the step", "At least", "of step"], rows, "needs-table");
  box.dataset.group = profile.group;
  return box;
}

function trafficTable(profiles) {
  const links = [...new Set(profiles.flatMap((profile) => Object.keys(profile.summary.traffic)))];
  if (links.length === 0) return make("p", {}, "Nothing is moved between tiers or ranks.");
  const most = Math.max(...profiles.flatMap((profile) => Object.values(profile.summary.traffic)));
  const rows = links.map((link) => [wordsOf(link), ...profiles.flatMap((profile) => {
    const bytes = profile.summary.traffic[link] || 0, lane = profile.summary.lanes[laneOfLink(link)];
    return [partsBar([{ class: "busy", colour: "var(--move)", value: bytes }], most), figure(bytes, sizeText, "traffic"),
      lane && lane.busy_seconds > 0 ? figure(bytes / lane.busy_seconds, (rate) => sizeText(Math.round(rate)) + "/s", "rate") : "–"];
  })]);
  const heads = ["Link", ...profiles.flatMap((profile) => { const of = profiles.length > 1 ? ", " + profile.group : ""; return ["Share" + of, "Bytes" + of, "While busy" + of]; })];
  return table("Bytes per step", heads, rows, "traffic-table");
}
const laneOfLink = (link) => ({ nvme_read: "read", nvme_write: "write", h2d: "h2d", d2h: "d2h" })[link];

function kindTable(profile, tier) {
  const memory = profile.summary.memory[tier], kinds = Object.entries(memory.by_kind).filter(([, bytes]) => bytes > 0).sort((a, b) => b[1] - a[1]);
  const rows = kinds.map(([kind, bytes]) => [make("span", {}, swatch(kind), wordsOf(kind)), partsBar([{ value: bytes, colour: "var(--" + kind + ")" }], memory.live_peak_bytes),
    figure(bytes, sizeText, "kind." + kind), figure(bytes / memory.live_peak_bytes, (part) => shareText(part, 1), "kind-share." + kind),
    make("span", { class: "list" }, profile.knobs(kind, tier).slice(0, 3).map((knob) => make("span", {}, make("code", {}, knob.key), " " + knob.how)))]);
  return table("By kind at the peak of " + tier, ["Kind", "Share", "Bytes", "of peak", "What moves it"], rows, "kind-table");
}

const kFirstRows = 12;
function bufferTable(profile, tier) {
  const memory = profile.summary.memory[tier];
  const rows = memory.at_peak.map((buffer) => [buffer.name, make("span", {}, swatch(buffer.kind), wordsOf(buffer.kind)), figure(buffer.bytes, sizeText, "buffer.bytes"),
    figure(buffer.to_seconds - buffer.from_seconds, timeText, "buffer.seconds"), buffer.made_by || "the step before", buffer.last_used_by || "the next step",
    make("span", { class: "list" }, buffer.moved_by.slice(0, 2).map((key) => make("code", {}, key)))]);
  const box = table("Alive at the peak of " + tier, ["Buffer", "Kind", "Bytes", "Lives", "Made by", "Freed after", "Moved by"], rows, "buffer-table");
  const lines = [...box.querySelectorAll("tbody tr")];
  lines.slice(kFirstRows).forEach((line) => { line.hidden = true; });
  if (lines.length <= kFirstRows) return [box];
  const more = make("button", { type: "button", "aria-expanded": "false" }, "All " + lines.length);
  more.addEventListener("click", () => {
    const show = more.getAttribute("aria-expanded") === "false";
    lines.slice(kFirstRows).forEach((line) => { line.hidden = !show; });
    more.setAttribute("aria-expanded", String(show));
    more.textContent = show ? "The largest " + kFirstRows : "All " + lines.length;
  });
  return [box, more];
}

function peakOf(profile, tier) {
  const memory = profile.summary.memory[tier];
  const gap = memory.peak_bytes - memory.live_peak_bytes;
  const text = [figure(memory.live_peak_bytes, sizeText, "live-peak"), " live at ", figure(memory.live_peak_at_seconds, timeText, "live-peak-at"),
    "; the tier holds ", figure(memory.peak_bytes, sizeText, "peak"), gap > 0 ? ", of which " + sizeText(gap) + " are gaps and places that wait for their next value" : ""];
  return make("article", { "data-tier": tier, "data-group": profile.group }, make("h3", {}, tier), make("p", { class: "lead" }, text),
    kindTable(profile, tier), bufferTable(profile, tier));
}
