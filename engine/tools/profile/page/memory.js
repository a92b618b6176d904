// A tier's memory over the step: its living buffers upon one another, by kind. Each column of pixels shows the moment within it
// that has most, so no peak is lost however much time a pixel stands for, and what is pointed at is what is drawn.

class MemoryChart extends Chart {
  constructor(view, profile, tier, top, label) {
    super(view, label, "ArrowLeft ArrowRight ArrowUp ArrowDown p + - 0 Enter Escape");
    this.profile = profile;
    this.tier = tier;
    this.highest = top;
  }
  heightFor(em) { return Math.round((innerWidth < 700 ? 12 : 15.5) * em); }

  // By column: the moment that it shows.
  sampleColumns() {
    const { times, totals } = this.tier, columns = Math.max(1, Math.round(this.plotWidth * this.ratio));
    const moments = new Int32Array(columns), sampled = new Float64Array(columns);
    let next = d3.bisectRight(times, this.view.first);
    for (let c = 0; c < columns; ++c) {
      const end = this.view.first + ((c + 1) / columns) * this.view.span;
      let best = Math.max(next - 1, 0);
      for (; next < times.length && times[next] < end; ++next) if (totals[next] > totals[best]) best = next;
      moments[c] = best;
      sampled[c] = Math.max(times[best], c > 0 ? sampled[c - 1] : 0);
    }
    return { columns, moments, sampled };
  }

  // Calls visit(life, first, last, base) for each buffer seen, from the lowest: `base` has bytes below it by column.
  forEachSeen(visit) {
    const { columns, moments } = this.samples, { times, lives } = this.tier, { from, to } = this.profile;
    const at = Float64Array.from(moments, (moment) => times[moment]);
    const base = new Float64Array(columns);
    for (const life of lives) {
      const first = d3.bisectLeft(at, from[life]), last = d3.bisectLeft(at, to[life]);
      if (first >= last) continue;
      if (visit(life, first, last, base) === false) return;
      for (let c = first; c < last; ++c) base[c] += this.profile.bytes[life];
    }
  }

  y(bytes) { return this.top + this.plotHeight * (1 - bytes / this.highest); }

  draw() {
    this.samples = this.sampleColumns();
    const context = this.context(this.canvas), { columns, moments } = this.samples, kinds = this.profile.page.kinds;
    const column = (c) => this.left + c / this.ratio;
    const below = new Float64Array(columns);
    kinds.forEach((kind, k) => {
      context.fillStyle = this.colour(kind);
      context.beginPath();
      for (let c = 0; c < columns;) {
        const bytes = this.tier.byKind[moments[c]][k], under = below[c];
        let end = c;
        while (end < columns && this.tier.byKind[moments[end]][k] === bytes && below[end] === under) below[end++] = under + bytes;
        if (bytes > 0) context.rect(column(c), this.y(under + bytes), (end - c) / this.ratio, this.y(under) - this.y(under + bytes));
        c = end;
      }
      context.fill();
    });
    this.drawBuffers(context);
    this.drawLines(context);
    this.drawAxes();
    this.plot.dataset.peakBytes = String(this.tier.totals[this.tier.peak]);
    Object.assign(this.plot.dataset, { tier: this.tier.name, group: this.profile.group, left: this.left, width: this.plotWidth, top: this.top,
      height: this.plotHeight, first: this.view.first, last: this.view.last, highest: this.highest });
  }

  // Edges between buffers that are large enough to be seen, and names in those that have room for them.
  drawBuffers(context) {
    const perByte = this.plotHeight / this.highest, labels = [];
    context.strokeStyle = this.colour("surface");
    context.lineWidth = 1 / this.ratio;
    context.globalAlpha = 0.75;
    context.beginPath();
    this.forEachSeen((life, first, last, base) => {
      const height = this.profile.bytes[life] * perByte;
      if (height < 0.4 * this.em || last - first < 3) return;
      this.trace(context, life, first, last, base);
      if (height > 1.25 * this.em && (last - first) / this.ratio > 5 * this.em) labels.push([life, ...longestLevel(base, first, last)]);
    });
    context.stroke();
    context.globalAlpha = 1;
    context.font = 0.72 * this.em + "px " + getComputedStyle(this.plot).fontFamily;
    context.textBaseline = "middle";
    context.textAlign = "center";
    context.fillStyle = this.colour("on-colour");
    for (const [life, first, last, under] of labels) {
      if ((last - first) / this.ratio < 4 * this.em) continue;
      const room = (last - first) / this.ratio - this.em, middle = this.left + (first + last) / 2 / this.ratio;
      const text = fitted(context, this.profile.bufferName(life), room);
      if (text) context.fillText(text, middle, this.y(under + this.profile.bytes[life] / 2));
    }
  }

  // The sides and the top of a buffer, and its bottom if it is to be closed: it moves up and down with what lies below it.
  trace(context, life, first, last, base, isClosed) {
    const bytes = this.profile.bytes[life], x = (c) => this.left + c / this.ratio;
    context.moveTo(x(first), this.y(base[first]));
    context.lineTo(x(first), this.y(base[first] + bytes));
    for (let c = first + 1; c < last; ++c) {
      if (base[c] === base[c - 1]) continue;
      context.lineTo(x(c), this.y(base[c - 1] + bytes));
      context.lineTo(x(c), this.y(base[c] + bytes));
    }
    context.lineTo(x(last), this.y(base[last - 1] + bytes));
    context.lineTo(x(last), this.y(base[last - 1]));
    if (!isClosed) return;
    for (let c = last - 1; c > first; --c) {
      if (base[c] === base[c - 1]) continue;
      context.lineTo(x(c), this.y(base[c]));
      context.lineTo(x(c), this.y(base[c - 1]));
    }
    context.closePath();
  }

  drawLines(context) {
    const held = this.y(this.profile.summary.memory[this.tier.name].peak_bytes);
    context.strokeStyle = this.colour("ink");
    context.setLineDash([5, 4]);
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(this.left, held);
    context.lineTo(this.left + this.plotWidth, held);
    context.stroke();
    context.setLineDash([]);
    const time = this.tier.times[this.tier.peak];
    if (time < this.view.first || time > this.view.last) return;
    const x = this.x(time), y = this.y(this.tier.totals[this.tier.peak]);
    context.fillStyle = this.colour("ink");
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - 5, y - 8);
    context.lineTo(x + 5, y - 8);
    context.fill();
  }

  drawAxes() {
    this.drawTimeAxis();
    const unit = sizeUnit(this.highest), most = this.highest / unit.bytes;
    const scale = d3.scaleLinear().domain([0, most]).range([this.top + this.plotHeight, this.top]);
    const values = sizeTicks(most, Math.floor(this.plotHeight / (2 * this.em)));
    this.yAxis.attr("transform", "translate(" + this.left + ",0)")
      .call(d3.axisLeft(scale).tickValues(values).tickFormat((value) => value + " " + unit.name).tickSizeOuter(0));
  }

  columnOf(x) { return Math.min(Math.max(Math.floor((x - this.left) * this.ratio), 0), this.samples.columns - 1); }

  pointAt(x, y, clientX, clientY) {
    const column = this.columnOf(x), bytes = (1 - (y - this.top) / this.plotHeight) * this.highest;
    const moment = this.samples.moments[column], life = bytes < 0 ? -1 : this.lifeAt(moment, bytes);
    this.cursor = Math.max(this.tier.times[moment], this.view.first);
    this.moment = moment;
    this.choose(life, clientX, clientY, false);
  }

  aliveAt(moment) {
    const time = this.tier.times[moment];
    return this.tier.lives.filter((life) => this.profile.from[life] <= time && time < this.profile.to[life]);
  }
  lifeAt(moment, bytes) {
    let below = 0;
    for (const life of this.aliveAt(moment)) {
      below += this.profile.bytes[life];
      if (bytes < below) return life;
    }
    return -1;
  }

  choose(life, clientX, clientY, aloud) {
    this.chosen = life;
    this.drawMarks();
    const all = sizeText(this.tier.totals[this.moment]) + " on " + this.tier.name + " at " + timeText(this.cursor);
    if (life < 0) {
      const kinds = this.profile.page.kinds.map((kind, k) => [wordsOf(kind), this.tier.byKind[this.moment][k]]).filter(([, bytes]) => bytes > 0);
      return this.tell(all, kinds.map(([kind, bytes]) => [kind, sizeText(bytes)]), clientX, clientY, aloud);
    }
    this.tell(this.profile.bufferName(life), [...this.profile.bufferFacts(life), ["then", all]], clientX, clientY, aloud);
  }

  drawMarks() {
    const context = this.context(this.marks);
    if (typeof this.chosen !== "number") return;
    context.strokeStyle = this.colour("ink");
    if (this.cursor >= this.view.first && this.cursor <= this.view.last) {
      const x = this.x(this.cursor);
      context.lineWidth = 1;
      context.globalAlpha = 0.5;
      context.beginPath();
      context.moveTo(x, this.top);
      context.lineTo(x, this.top + this.plotHeight);
      context.stroke();
      context.globalAlpha = 1;
    }
    if (this.chosen < 0) return;
    context.lineWidth = 2;
    this.forEachSeen((life, first, last, base) => {
      if (life !== this.chosen) return true;
      context.beginPath();
      this.trace(context, life, first, last, base, true);
      context.stroke();
      return false;
    });
  }

  // Keys: to a moment, and among what lives then.
  stand() {
    if (this.moment === undefined) {
      this.moment = this.tier.peak;
      this.cursor = this.tier.times[this.moment];
    }
    return this.moment;
  }
  step(by) { this.goToMoment(Math.min(Math.max(this.stand() + by, 0), this.tier.times.length - 1)); }
  goTo(time) { this.goToMoment(Math.max(0, d3.bisectRight(this.tier.times, time) - 1), time); }
  goToPeak() { this.goToMoment(this.tier.peak); }
  // `time` is within the moment, which may have begun before what is seen.
  goToMoment(moment, time = this.tier.times[moment]) {
    this.moment = moment;
    this.cursor = time;
    this.view.reveal(time);
    this.samples = this.sampleColumns();
    const isAlive = this.chosen >= 0 && this.profile.from[this.chosen] <= time && time < this.profile.to[this.chosen];
    this.tellChosen(isAlive ? this.chosen : -1);
  }
  climb(by) {
    const alive = this.aliveAt(this.stand());
    const place = alive.indexOf(this.chosen), next = place < 0 ? (by > 0 ? 0 : alive.length - 1) : place + by;
    this.tellChosen(next >= 0 && next < alive.length ? alive[next] : -1);
  }
  tellChosen(life) {
    const box = this.plot.getBoundingClientRect();
    this.choose(life, box.left + this.x(this.cursor), box.top + this.height / 3, true);
  }
  zoomToChosen() {
    if (!(this.chosen >= 0)) return;
    const from = this.profile.from[this.chosen], to = this.profile.to[this.chosen], margin = (to - from) / 10;
    this.view.show(from - margin, to + margin);
  }
}

// The longest stretch of columns from `first` to before `last` with one value, and that.
function longestLevel(values, first, last) {
  let from = first, best = [first, first, values[first]];
  for (let c = first + 1; c <= last; ++c) {
    if (c < last && values[c] === values[from]) continue;
    if (c - from > best[1] - best[0]) best = [from, c, values[from]];
    from = c;
  }
  return best;
}

// Whole steps of 1, 2 or 5 and of powers of two beyond ten, as people count memory.
function sizeTicks(most, count) {
  const steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
  const step = steps.find((value) => most / value <= Math.max(count, 1)) || 1024;
  return d3.range(0, most * 1.0001, step).map((value) => Number(value.toFixed(2)));
}

// The text, shortened to the width; none if hardly anything is left.
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = Math.floor((text.length * width) / context.measureText(text).width) - 1;
  while (length > 3 && context.measureText(text.slice(0, length) + "…").width > width) --length;
  return length > 3 ? text.slice(0, length) + "…" : "";
}
