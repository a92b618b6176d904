// The profiles of the page: columns become typed arrays, and numbers of texts become texts where they are asked for.

function runningSums(differences) {
  const sums = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < differences.length; ++i) sums[i] = sum += differences[i];
  return sums;
}

class Profile {
  constructor(page, raw) {
    this.page = page;
    this.group = raw.group;
    this.name = raw.name;
    this.summary = raw.summary;
    this.tick = raw.tick_seconds;
    this.end = raw.end * raw.tick_seconds;
    const slices = raw.slices;
    this.count = slices.number.length;
    this.numbers = runningSums(slices.number);
    this.starts = runningSums(slices.start).map((ticks) => ticks * this.tick);
    this.ends = this.starts.map((start, s) => start + slices.duration[s] * this.tick);
    this.slices = slices;
    this.lives = raw.lives;
    this.lifeCount = raw.lives.name.length;
    this.bytes = Float64Array.from(raw.lives.size, (size) => page.sizes[size]);
    this.from = Float64Array.from(raw.lives.from, (ticks) => ticks * this.tick);
    this.to = Float64Array.from(raw.lives.to, (ticks) => ticks * this.tick);
    this.lanes = this.slicesByLane();
    this.tiers = page.tiers.map((_, tier) => this.makeTier(tier));
  }

  slicesByLane() {
    const lanes = new Map();
    for (let s = 0; s < this.count; ++s) {
      const lane = this.page.texts[this.slices.lane[s]];
      if (!lanes.has(lane)) lanes.set(lane, []);
      lanes.get(lane).push(s);
    }
    const named = [];
    for (const [name, slices] of lanes) {
      slices.sort((a, b) => this.starts[a] - this.starts[b]);
      named.push({ name, slices, starts: Float64Array.from(slices, (s) => this.starts[s]) });
    }
    const order = ["compute", "h2d", "d2h", "read", "write", "comm", "send", "receive", "tensor", "context", "cpu", "data", "save"];
    return named.sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
  }

  // What lives on a tier: its buffers as they lie upon one another in the chart, and the moments at which that changes.
  makeTier(tier) {
    const kinds = this.page.kinds.length;
    const lives = [];
    for (let l = 0; l < this.lifeCount; ++l) {
      if (this.lives.tier[l] === tier && this.to[l] > this.from[l]) lives.push(l);
    }
    const stays = (l) => (this.lives.maker[l] < 0 && this.lives.last_user[l] < 0 ? 0 : 1);
    lives.sort((a, b) => this.lives.kind[a] - this.lives.kind[b] || stays(a) - stays(b) || this.from[a] - this.from[b] || this.bytes[b] - this.bytes[a]);
    const changes = [];
    for (const l of lives) changes.push([this.from[l], this.bytes[l], l], [this.to[l], -this.bytes[l], l]);
    changes.sort((a, b) => a[0] - b[0]);
    const times = [], totals = [], byKind = [];
    const now = new Float64Array(kinds);
    for (let c = 0; c < changes.length;) {
      const time = changes[c][0];
      for (; c < changes.length && changes[c][0] === time; ++c) now[this.lives.kind[changes[c][2]]] += changes[c][1];
      times.push(time);
      totals.push(now.reduce((sum, bytes) => sum + bytes, 0));
      byKind.push(now.slice());
    }
    let peak = 0;
    for (let m = 1; m < totals.length; ++m) if (totals[m] > totals[peak]) peak = m;
    return { number: tier, name: this.page.tiers[tier], lives, times: Float64Array.from(times), totals: Float64Array.from(totals), byKind, peak };
  }

  sliceOf(instruction) {
    if (instruction < 0) return -1;
    const found = d3.bisectLeft(this.numbers, instruction);
    return found < this.count && this.numbers[found] === instruction ? found : -1;
  }

  title(slice) {
    const microbatch = this.slices.microbatch[slice];
    return this.page.texts[this.slices.title[slice]] + (microbatch < 0 ? "" : " mb=" + microbatch);
  }
  operation(slice) { return this.page.texts[this.slices.operation[slice]]; }
  lane(slice) { return this.page.texts[this.slices.lane[slice]]; }
  waited(slice) { return this.slices.waited[slice] * this.tick; }
  titleOf(instruction) {
    const slice = this.sliceOf(instruction);
    return slice < 0 ? null : this.title(slice);
  }
  awaitedTitle(slice) { return this.titleOf(this.slices.awaited[slice]); }

  bufferName(life) {
    const microbatch = this.lives.microbatch[life];
    return this.page.texts[this.lives.name[life]] + (microbatch < 0 ? "" : "[mb=" + microbatch + "]");
  }
  kind(life) { return this.page.kinds[this.lives.kind[life]]; }
  knobs(kind, tier) { return this.page.knobs[this.page.kinds.indexOf(kind)][this.page.tiers.indexOf(tier)]; }

  // What a person wants to know of a buffer, as pairs of words.
  bufferFacts(life) {
    const maker = this.titleOf(this.lives.maker[life]), last = this.titleOf(this.lives.last_user[life]);
    const facts = [["size", sizeText(this.bytes[life])], ["kind", wordsOf(this.kind(life))]];
    const stays = maker === null && last === null;
    facts.push(["lives", stays ? "throughout: it keeps its contents from step to step"
      : timeText(this.from[life]) + " to " + timeText(this.to[life]) + ", " + timeText(this.to[life] - this.from[life])]);
    if (!stays) facts.push(["made by", maker || "the step before"], ["freed after", last || "the next step"]);
    const knobs = this.knobs(this.kind(life), this.page.tiers[this.lives.tier[life]]);
    if (knobs.length > 0) facts.push(["moved by", knobs.slice(0, 3).map((knob) => knob.key).join(", ")]);
    return facts;
  }

  sliceFacts(slice) {
    const facts = [["lane", this.lane(slice)], ["takes", timeText(this.ends[slice] - this.starts[slice])],
      ["from", timeText(this.starts[slice])]];
    const waited = this.waited(slice);
    if (waited > 0) facts.push(["waited", timeText(waited) + (this.awaitedTitle(slice) ? " for " + this.awaitedTitle(slice) : "")]);
    return facts;
  }
}
