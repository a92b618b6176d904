// The lanes of a step side by side in time. Where many instructions fall on one pixel, the filled part of its height is the part of
// the time that the lane is busy.

const kWork = {
  forward: "forward", backward: "backward", input_gradient: "backward", weight_gradient: "backward",
  mix_momentum: "update", precondition: "update", update: "update",
  copy_to_device: "move", copy_to_host: "move", read: "move", write: "move",
  all_gather: "exchange", reduce_scatter: "exchange", all_reduce: "exchange", ring_shift: "exchange", send: "exchange", receive: "exchange"
};
const kWorks = [["forward", "forward"], ["backward", "backward"], ["update", "update"], ["move", "copies, reads, writes"],
  ["exchange", "between ranks"], ["small", "everything else"]];
const workOf = (operation) => kWork[operation] || "small";

class LanesChart extends Chart {
  constructor(view, profile, label) {
    super(view, label, "ArrowLeft ArrowRight ArrowUp ArrowDown + - 0 Enter Escape");
    this.profile = profile;
    this.row = 0;
  }
  heightFor(em) { return Math.round((this.profile.lanes.length * 2.1 + 2.4) * em); }
  rowTop(row) { return this.top + row * 2.1 * this.em + 0.2 * this.em; }
  get rowHeight() { return 1.7 * this.em; }

  draw() {
    const context = this.context(this.canvas);
    this.colours = new Map(kWorks.map(([work]) => [work, this.colour(work)]));
    this.hatch = this.makeHatch(context);
    this.profile.lanes.forEach((lane, row) => this.drawLane(context, lane, row));
    this.drawStepEnd(context);
    this.drawTimeAxis();
    const rows = d3.scalePoint().domain(this.profile.lanes.map((lane) => lane.name)).range([this.rowTop(0) + this.rowHeight / 2, this.rowTop(this.profile.lanes.length - 1) + this.rowHeight / 2]);
    this.yAxis.attr("transform", "translate(" + this.left + ",0)").call(d3.axisLeft(rows).tickSize(0).tickPadding(6));
    Object.assign(this.plot.dataset, { group: this.profile.group, left: this.left, width: this.plotWidth, first: this.view.first, last: this.view.last,
      rowTop: this.rowTop(0), rowStep: 2.1 * this.em, rowHeight: this.rowHeight, lanes: this.profile.lanes.map((lane) => lane.name).join(" ") });
  }

  makeHatch(context) {
    const size = 6, tile = document.createElement("canvas");
    tile.width = tile.height = size * this.ratio;
    const pen = tile.getContext("2d");
    pen.scale(this.ratio, this.ratio);
    pen.strokeStyle = this.colour("hatch");
    pen.beginPath();
    for (const shift of [-size, 0, size]) {
      pen.moveTo(shift, size);
      pen.lineTo(shift + size, 0);
    }
    pen.stroke();
    const pattern = context.createPattern(tile, "repeat");
    pattern.setTransform(new DOMMatrix().scale(1 / this.ratio));
    return pattern;
  }

  drawLane(context, lane, row) {
    const top = this.rowTop(row), height = this.rowHeight, profile = this.profile;
    const right = this.left + this.plotWidth, columns = Math.max(1, Math.round(this.plotWidth * this.ratio));
    const covered = new Map();
    context.save();
    context.beginPath();
    context.rect(this.left, top, this.plotWidth, height);
    context.clip();
    context.fillStyle = this.colour("track");
    context.fillRect(this.left, top, this.plotWidth, height);
    context.font = 0.72 * this.em + "px " + getComputedStyle(this.plot).fontFamily;
    context.textBaseline = "middle";
    let place = Math.max(0, this.placeAt(lane, this.view.first));
    for (; place < lane.slices.length && this.gapStart(lane, place) < this.view.last; ++place) {
      const slice = lane.slices[place], x0 = this.x(profile.starts[slice]), x1 = this.x(profile.ends[slice]);
      this.drawGap(context, lane, place, x0, top, height);
      if (x0 > right) break;
      const work = workOf(profile.operation(slice));
      if (x1 - x0 < 1.5) {
        this.cover(covered, work, columns, x0, x1);
        continue;
      }
      context.fillStyle = this.colours.get(work);
      context.fillRect(x0, top, x1 - x0 - (x1 - x0 > 4 ? 1 / this.ratio : 0), height);
      this.write(context, profile.title(slice), x0, x1, top + height / 2, "on-colour");
    }
    this.drawCovered(context, covered, columns, top, height);
    context.restore();
  }
  gapStart(lane, place) {
    const slice = lane.slices[place];
    const before = place > 0 ? this.profile.ends[lane.slices[place - 1]] : 0;
    return Math.max(before, this.profile.starts[slice] - this.profile.waited(slice));
  }
  drawGap(context, lane, place, x0, top, height) {
    const from = this.x(this.gapStart(lane, place));
    if (x0 - from < 3) return;
    context.fillStyle = this.hatch;
    context.fillRect(from, top, x0 - from, height);
    const awaited = this.profile.awaitedTitle(lane.slices[place]);
    if (awaited) this.write(context, "waits for " + awaited, from, x0, top + height / 2, "quiet");
  }
  write(context, text, x0, x1, y, colour) {
    const from = Math.max(x0, this.left), to = Math.min(x1, this.left + this.plotWidth), room = to - from - 0.8 * this.em;
    if (room < 3 * this.em) return;
    const written = fitted(context, text, room);
    if (!written) return;
    if (colour === "quiet") {
      context.fillStyle = this.colour("track");
      context.fillRect(from + 0.2 * this.em, y - 0.55 * this.em, context.measureText(written).width + 0.4 * this.em, 1.1 * this.em);
    }
    context.fillStyle = this.colour(colour);
    context.fillText(written, from + 0.4 * this.em, y);
  }
  cover(covered, work, columns, x0, x1) {
    if (!covered.has(work)) covered.set(work, new Float32Array(columns + 2));
    const parts = covered.get(work), from = (x0 - this.left) * this.ratio, to = (x1 - this.left) * this.ratio;
    for (let c = Math.max(0, Math.floor(from)); c < Math.min(columns, Math.floor(to) + 1); ++c) parts[c] += Math.max(0, Math.min(to, c + 1) - Math.max(from, c));
  }
  drawCovered(context, covered, columns, top, height) {
    const filled = new Float32Array(columns);
    for (const [work] of kWorks) {
      const parts = covered.get(work);
      if (!parts) continue;
      context.fillStyle = this.colours.get(work);
      for (let c = 0; c < columns; ++c) {
        if (parts[c] <= 0) continue;
        const part = Math.max(Math.min(parts[c], 1 - filled[c]) * height, 0.5);
        context.fillRect(this.left + c / this.ratio, top + height - filled[c] * height - part, 1 / this.ratio, part);
        filled[c] = Math.min(1, filled[c] + parts[c]);
      }
    }
  }
  drawStepEnd(context) {
    const seconds = this.profile.summary.seconds, x = this.x(seconds);
    if (x < this.left || x > this.left + this.plotWidth) return;
    context.strokeStyle = this.colour("ink");
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(x, this.top);
    context.lineTo(x, this.top + this.plotHeight);
    context.stroke();
    context.setLineDash([]);
  }

  pointAt(x, y, clientX, clientY) {
    const row = Math.floor((y - this.rowTop(0)) / (2.1 * this.em));
    if (row < 0 || row >= this.profile.lanes.length) return this.release();
    this.row = row;
    this.cursor = this.timeAt(x);
    const lane = this.profile.lanes[row], place = this.placeAt(lane, this.cursor);
    const before = place >= 0 ? lane.slices[place] : -1;
    // A pixel's width of kindness to a reader who points at something small.
    if (before >= 0 && this.cursor <= this.profile.ends[before] + this.view.span / this.plotWidth) return this.choose(place, clientX, clientY, false);
    this.chooseGap(lane, place + 1, clientX, clientY, false);
  }
  placeAt(lane, time) { return d3.bisectRight(lane.starts, time) - 1; }

  choose(place, clientX, clientY, aloud) {
    const slice = this.profile.lanes[this.row].slices[place];
    this.chosen = place;
    this.marked = [this.profile.starts[slice], this.profile.ends[slice]];
    this.drawMarks();
    this.tell(this.profile.title(slice), this.profile.sliceFacts(slice), clientX, clientY, aloud);
  }
  chooseGap(lane, next, clientX, clientY, aloud) {
    this.chosen = this.marked = null;
    if (next >= lane.slices.length) {
      this.drawMarks();
      return this.tell(lane.name + " has no more to do", [], clientX, clientY, aloud);
    }
    const slice = lane.slices[next], from = this.gapStart(lane, next), awaited = this.profile.awaitedTitle(slice);
    this.marked = [from, this.profile.starts[slice]];
    this.drawMarks();
    this.tell(lane.name + " is idle", [["waits for", awaited || "nothing of this step"], ["for", timeText(this.profile.starts[slice] - from)],
      ["before", this.profile.title(slice)]], clientX, clientY, aloud);
  }
  drawMarks() {
    const context = this.context(this.marks);
    if (!this.marked) return;
    const x0 = Math.max(this.x(this.marked[0]), this.left), x1 = Math.min(this.x(this.marked[1]), this.left + this.plotWidth);
    if (x1 < this.left || x0 > this.left + this.plotWidth) return;
    context.strokeStyle = this.colour("ink");
    context.lineWidth = 2;
    context.strokeRect(x0, this.rowTop(this.row) - 1, Math.max(x1 - x0, 2), this.rowHeight + 2);
  }

  step(by) {
    const lane = this.profile.lanes[this.row];
    const place = typeof this.chosen === "number" ? this.chosen + by : this.placeAt(lane, this.cursor || 0);
    this.goToPlace(Math.min(Math.max(place, 0), lane.slices.length - 1));
  }
  climb(by) {
    this.row = Math.min(Math.max(this.row - by, 0), this.profile.lanes.length - 1);
    this.goTo(this.cursor || 0);
  }
  goTo(time) { this.goToPlace(Math.max(0, this.placeAt(this.profile.lanes[this.row], time)), time); }
  // `time` is where it is looked at, which may be behind its start.
  goToPlace(place, time = this.profile.starts[this.profile.lanes[this.row].slices[place]]) {
    this.cursor = time;
    this.view.reveal(time);
    const box = this.plot.getBoundingClientRect();
    this.choose(place, box.left + this.x(this.cursor), box.top + this.rowTop(this.row) + this.rowHeight, true);
  }
  zoomToChosen() {
    if (typeof this.chosen !== "number") return;
    const slice = this.profile.lanes[this.row].slices[this.chosen];
    const from = this.profile.starts[slice], to = this.profile.ends[slice], margin = Math.max(to - from, 1e-9);
    this.view.show(from - margin, to + margin);
  }
}
