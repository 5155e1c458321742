// The status page: asks the coordinator for its reports every two seconds and draws them. What comes from there is put
// into the page as text only.
"use strict";

const POLL_MS = 2000;
const PATIENCE_MS = 5000;

// --- Small tools.

const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const node = name.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// JSON has 64-bit numbers and what is not finite as strings.
const number = (value) => (value === undefined || value === "" ? 0 : Number(value));
const time = (stamp) => (stamp ? Date.parse(stamp) / 1000 : undefined);
const whole = (value) => number(value).toLocaleString("en");
// Of any size, in few digits.
function brief(value) {
  const n = number(value), size = Math.abs(n);
  if (!isFinite(n)) return String(n);
  return size >= 1e6 || (size > 0 && size < 1e-3) ? n.toExponential(2) : n.toFixed(3);
}
const loss = (value) => (value === undefined ? "–" : brief(value));

function scaled(value, units, base) {
  let n = number(value), i = 0;
  while (n >= base && i + 1 < units.length) { n /= base; ++i; }
  return (n >= 100 || i === 0 ? n.toFixed(0) : n.toFixed(1)) + units[i];
}
const short = (value) => scaled(value, ["", " k", " M", " G", " T"], 1000);
const bytes = (value) => scaled(value, [" B", " kB", " MB", " GB", " TB"], 1000);

function duration(seconds) {
  if (!isFinite(seconds)) return "–";
  if (seconds < 1) return (seconds * 1000).toFixed(0) + " ms";
  if (seconds < 60) return seconds.toFixed(1) + " s";
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const STATE_CLASS = {
  RUNNING: "good", COMPLETED: "good", PARTICIPATING: "good", FAILED: "bad", QUARANTINED: "bad", LOST: "bad",
  CANCELLED: "dim", IDLE: "dim", PENDING: "warn", SEEDING: "warn", FINISHING: "good", ASSIGNED: "warn",
  PAUSING: "warn", PAUSED: "dim", DRAINING: "warn", AWAY: "warn", FORMING: "warn",
};
const state = (word = "UNKNOWN") => element("span", {class: STATE_CLASS[word] || "dim"}, word.toLowerCase());

// A job that trains badly is not plain green, whatever its state.
const HEALTH_CLASS = { WARNING: "warn", FAILING: "bad" };
function jobState(job) {
  const level = (job.health || {}).level;
  if (!HEALTH_CLASS[level]) return state(job.state);
  return element("span", {class: STATE_CLASS[job.state] === "bad" ? "bad" : HEALTH_CLASS[level]},
    `${(job.state || "UNKNOWN").toLowerCase()}, ${level.toLowerCase()}`);
}
// What was found, each with what to do.
const findingsOf = (job) => ((job.health || {}).findings || []).flatMap((f) =>
  [`${f.pool ? `${f.pool}: ` : ""}${f.message}`, f.hint]).filter(Boolean);

// A job whose spec cannot be read has no name, and one of an old coordinator may lack parts.
const nameOf = (job) => (job.spec || {}).name || job.id || "?";
const unitOf = (job) => job.unit_name || "tokens";
const stepsOf = (job) => number(((job.spec || {}).train || {}).steps);
const reasonOf = (thing) => (thing.error || {}).message || "no reason is known";

// Cells: text, a node, or {n: number as text} for the right-hand side.
function fillTable(id, rows, chosen = -1) {
  const body = $(id).tBodies[0];
  body.replaceChildren(...rows.map((cells, row) => element("tr", row === chosen ? {class: "chosen"} : {},
    ...cells.map((cell) => cell && cell.n !== undefined ? element("td", {class: "n"}, cell.n)
      : cell && cell.wide !== undefined ? element("td", {class: "wide"}, cell.wide) : element("td", {}, cell)))));
}

// --- Charts.

// Round numbers that cover [low, high] in about `count` steps.
function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  // Multiples of a whole number: sums would end beside zero.
  const result = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) result.push(Number((i * step).toPrecision(12)) + 0);
  return result;
}

function curve(points, x, y, className) {
  const finite = points.filter((p) => isFinite(p.loss));
  const d = finite.map((p, i) => `${i ? "L" : "M"}${x(p.step).toFixed(1)},${y(p.loss).toFixed(1)}`).join("");
  return element("svg:path", {class: `curve ${className}`, d});
}

const plain = (points) => (points || []).map((p) => ({step: number(p.step), loss: number(p.loss)}));

// Of a noisy curve: the mean of its neighbours, wider the more points there are.
function smooth(points) {
  const reach = Math.floor(points.length / 40);
  return points.map((p, i) => {
    const near = points.slice(Math.max(0, i - reach), i + reach + 1).filter((q) => isFinite(q.loss));
    return {step: p.step, loss: near.reduce((sum, q) => sum + q.loss, 0) / near.length};
  });
}

// The coordinator's files have the curves of a job that has ended, and of the time before a restart.
const stored = (curves, name, outer) => (curves || []).filter((c) => c.name === name && !c.pool === outer)
  .map((c) => ({name: c.pool, points: (c.points || []).map((p) => ({step: number(p.step), loss: number(p.value)}))}));

function lossChart(detail, width, curves, other) {
  const evaluations = plain(detail.evaluations);
  const live = (detail.curves || []).map((c) => ({name: c.pool, points: plain(c.points)}));
  const pools = (live.length ? live : stored(curves, "train/loss", false)).map((c) => ({name: c.name, points: smooth(c.points)}));
  const beside = other ? (stored(other.curves, "eval/loss", true)[0] || {points: []}).points : [];
  const own = (detail.pool_evaluations || []).map((c) => ({name: c.pool, points: plain(c.points)}));
  const all = [...evaluations, ...beside, ...[...pools, ...own].flatMap((p) => p.points)].filter((p) => isFinite(p.loss));
  if (all.length < 2) return element("p", {class: "dim"}, "No loss was reported yet.");
  const [W, H, L, B, T] = [width, 240, 40, 22, 6];
  const lastStep = Math.max(...all.map((p) => p.step), 1);
  // The first steps are far above the rest, which is what people look at.
  const sorted = all.map((p) => p.loss).sort((a, b) => a - b);
  const low = sorted[0], high = sorted[Math.ceil((sorted.length - 1) * 0.98)] || low + 1;
  const room = (high - low) * 0.05 || 0.1;
  const x = (step) => L + (step / lastStep) * (W - L - 6);
  const y = (value) => H - B - ((Math.min(value, high + room) - low + room) / (high - low + 2 * room)) * (H - B - T);
  const svg = element("svg:svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "loss by inner step"});
  for (const t of ticks(low, high, 5)) {
    svg.append(element("svg:line", {class: "grid", x1: L, x2: W - 6, y1: y(t), y2: y(t)}),
               element("svg:text", {x: L - 5, y: y(t) + 4, "text-anchor": "end"}, tickText(t)));
  }
  for (const t of ticks(0, lastStep, width / 120)) {
    svg.append(element("svg:text", {x: x(t), y: H - 6, "text-anchor": x(t) > W - 30 ? "end" : "middle"}, t.toLocaleString("en")));
  }
  pools.forEach((p, i) => svg.append(curve(p.points, x, y, `s${i % 6}`)));
  // In the color of the same pool's training.
  const colorOf = (name) => Math.max(pools.findIndex((p) => p.name === name), 0) % 6;
  for (const p of own) svg.append(curve(p.points, x, y, `held s${colorOf(p.name)}`));
  svg.append(curve(beside, x, y, "other"), curve(evaluations, x, y, "eval"));
  for (const p of evaluations.filter((e) => isFinite(e.loss))) {
    svg.append(element("svg:circle", {class: "dot", cx: x(p.step), cy: y(p.loss), r: 2.6},
                       element("svg:title", {}, `step ${p.step}: ${p.loss.toFixed(4)}`)));
  }
  const mark = (className, label) => element("span", {}, element("svg:svg", {viewBox: "0 0 22 10"},
    element("svg:path", {class: `curve ${className}`, d: "M0,5L22,5"})), label);
  const legend = element("p", {class: "legend"}, mark("eval", "outer parameters, held-out text"),
                         ...pools.map((p, i) => mark(`s${i % 6}`, `${p.name}, training`)),
                         ...own.map((p) => mark(`held s${colorOf(p.name)}`, `${p.name}, held-out text`)),
                         ...(other ? [mark("other", `${other.name}, held-out text`)] : []));
  const top = sorted[sorted.length - 1];
  if (top > high + room) legend.append(element("span", {}, `cut at ${brief(high + room)}: losses reach ${brief(top)}`));
  return element("div", {}, svg, legend);
}

const tickText = (t) => (t !== 0 && (Math.abs(t) >= 1e5 || Math.abs(t) < 1e-3) ? t.toExponential(0) : String(t));

// What pools report beside their loss. The names are those of the coordinator's files (docs/operate/monitoring.md).
const SMALL_CURVES = [["train/learning_rate", "Learning rate"], ["train/gradient_norm", "Gradient norm"], ["train/tokens_per_second", "Units per second"]];

function smallChart(pools, title) {
  const all = pools.flatMap((p) => p.points).filter((p) => isFinite(p.loss));
  if (all.length < 2) return "";
  const [W, H, L, B] = [300, 110, 46, 18];
  const lastStep = Math.max(...all.map((p) => p.step), 1);
  const low = Math.min(...all.map((p) => p.loss)), high = Math.max(...all.map((p) => p.loss), low + Math.abs(low) * 1e-3 + 1e-12);
  const x = (step) => L + (step / lastStep) * (W - L - 6);
  const y = (value) => H - B - ((value - low) / (high - low)) * (H - B - 8);
  const svg = element("svg:svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${title} by inner step`});
  for (const t of ticks(low, high, 3)) {
    svg.append(element("svg:line", {class: "grid", x1: L, x2: W - 6, y1: y(t), y2: y(t)}),
               element("svg:text", {x: L - 4, y: y(t) + 4, "text-anchor": "end"}, tickText(t)));
  }
  for (const t of ticks(0, lastStep, 3)) svg.append(element("svg:text", {x: x(t), y: H - 4, "text-anchor": x(t) > W - 30 ? "end" : "middle"}, t.toLocaleString("en")));
  pools.forEach((p, i) => svg.append(curve(p.points, x, y, `s${i % 6}`)));
  return element("div", {}, element("p", {class: "legend"}, title), svg);
}

const smallCharts = (curves, unit) => SMALL_CURVES.map(([name, title]) => smallChart(stored(curves, name, false), title.replace("Units", unit))).filter(Boolean);

function roundsChart(detail, width) {
  const now = time(detail.now);
  const rounds = (detail.rounds || []).filter((r) => (r.pools || []).some((p) => time(p.pushed_at)));
  if (rounds.length === 0) return element("p", {class: "dim"}, "No round has begun since the coordinator started.");
  const begin = (r) => Math.min(...r.pools.map((p) => time(p.pushed_at)).filter(isFinite));
  const end = (r) => Math.max(time(r.committed_at) || now, ...r.pools.map((p) => time(p.merged_at) || 0));
  const lanes = [...new Set(rounds.map((r) => r.fragment || 0))].sort((a, b) => a - b);
  const from = Math.min(...rounds.map(begin)), to = Math.max(...rounds.map(end), from + 1);
  const [W, L, B, LANE] = [width, 78, 20, 24];
  const H = lanes.length * LANE + B + 4;
  const x = (t) => L + ((t - from) / (to - from)) * (W - L - 6);
  const svg = element("svg:svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "newest rounds by time"});
  lanes.forEach((fragment, lane) => svg.append(
    element("svg:text", {x: 0, y: lane * LANE + 17}, `fragment ${fragment}`),
    element("svg:line", {class: "grid", x1: L, x2: W - 6, y1: (lane + 1) * LANE, y2: (lane + 1) * LANE})));
  for (const t of ticks(from - to, 0, width / 120)) {
    svg.append(element("svg:text", {x: x(to + t), y: H - 4, "text-anchor": t === 0 ? "end" : "middle"}, t === 0 ? "0" : `${t} s`));
  }
  for (const r of rounds) {
    const y = lanes.indexOf(r.fragment || 0) * LANE + 6;
    const committed = time(r.committed_at);
    const bar = (a, b, className, height, top) => element("svg:rect",
      {class: className, x: x(a), y: y + top, width: Math.max(x(b) - x(a), 2), height});
    const group = element("svg:g", {}, element("svg:title", {}, describeRound(r)));
    group.append(bar(begin(r), committed || now, committed ? "exchange" : "open", 12, 0));
    if (committed && end(r) > committed) group.append(bar(committed, end(r), "merge", 12, 0));
    for (const p of r.pools) {
      const waited = number(p.waited_seconds), merged = time(p.merged_at);
      if (merged && waited > 0.02) group.append(bar(Math.max(merged - waited, from), merged, "waited", 3, 12));
    }
    svg.append(group);
  }
  const mark = (className, label) => element("span", {}, element("svg:svg", {viewBox: "0 0 22 10"},
    element("svg:rect", {class: className, x: 0, y: 0, width: 22, height: 10})), label);
  return element("div", {}, svg, element("p", {class: "legend"}, mark("open", "pushed, not committed"),
    mark("exchange", "first push to commit"), mark("merge", "until all merged"), mark("waited", "a pool waited")));
}

// By pool: what its link carried in the newest rounds, in Mbit/s. Rounds without a codec (seed, final) are longer than
// all others and do not count.
function linkRates(rounds, fragments) {
  const transfers = {};
  for (const r of (rounds || []).filter((one) => one.kind === "outer")) {
    const of = (fragments || [])[r.fragment || 0] || {};
    for (const p of r.pools || []) {
      const ways = transfers[p.pool] = transfers[p.pool] || {up: [], down: []};
      ways.up.push({at: time(p.pushed_at), bytes: number(of.payload_bytes_up)});
      ways.down.push({at: time(p.merged_at), bytes: number(of.payload_bytes_down)});
    }
  }
  // From the end of the first transfer to the end of the last.
  const rate = (all) => {
    const [first, ...rest] = all.filter((one) => one.at).sort((a, b) => a.at - b.at);
    const last = rest[rest.length - 1];
    return last && last.at > first.at ? rest.reduce((sum, one) => sum + one.bytes, 0) * 8 / 1e6 / (last.at - first.at) : NaN;
  };
  return Object.fromEntries(Object.entries(transfers).map(([pool, ways]) => [pool, {up: rate(ways.up), down: rate(ways.down)}]));
}

function describeRound(r) {
  const committed = time(r.committed_at);
  const lines = r.pools.map((p) => {
    const pushed = time(p.pushed_at), merged = time(p.merged_at);
    const commit = committed ? `, committed ${duration(committed - pushed)} later` : ", not committed yet";
    const merge = merged ? `, merged ${duration(merged - pushed)} after the push, waited ${duration(number(p.waited_seconds))}` : "";
    return `${p.pool}: pushed${commit}${merge}`;
  });
  return [`fragment ${r.fragment || 0}, version ${r.version || 0} (${r.kind})`, ...lines].join("\n");
}

// --- The page.

function showOverview(overview, chosen) {
  $("version").textContent = overview.version;
  const health = $("health");
  health.className = overview.not_ready ? "bad" : "good";
  health.textContent = overview.not_ready ? `not ready: ${overview.not_ready}`
    : `ready, up ${duration(time(overview.now) - time(overview.started_at))}`;
  const jobs = overview.jobs || [], pools = overview.pools || [];
  const nameOfId = Object.fromEntries(jobs.map((j) => [j.id, nameOf(j)]));
  $("jobs").hidden = jobs.length === 0;
  $("no-jobs").hidden = jobs.length > 0;
  fillTable("jobs", jobs.map((j) => [
    element("a", {href: `#${encodeURIComponent(nameOf(j))}`}, nameOf(j)), jobState(j),
    {n: `${whole(j.inner_step)} / ${stepsOf(j) ? whole(stepsOf(j)) : "?"}`}, {n: loss((j.eval_loss || {}).last)}, {n: short(j.tokens)}]),
    jobs.findIndex((j) => j.id === chosen));
  $("pools").hidden = pools.length === 0;
  $("no-pools").hidden = pools.length > 0;
  fillTable("pools", pools.map((p) => [p.name, state(p.state), nameOfId[p.job_id] || p.job_id || "–", {n: whole(p.ranks)},
    p.device === "CUDA" ? "GPU" : "CPU", p.host, p.version, {wide: describeNodes(p)}, {wide: describeSetAside(p)}]));
}

function describeNodes(pool) {
  if (!(pool.nodes || []).length) return pool.waiting_for || "1";
  const nodes = pool.nodes.map((n) => `${n.node || 0}: ${n.here ? n.host || n.address : "missing"}`).join(", ");
  return pool.waiting_for ? `${nodes}; waits for ${pool.waiting_for}` : nodes;
}

function describeSetAside(pool) {
  const jobs = (pool.set_aside || []).map((s) => `${s.job}: ${reasonOf(s)}`);
  return jobs.length ? element("span", {class: "warn"}, jobs.join("; ")) : "–";
}

// What words of this page mean, for those who hold the pointer over them.
const TERMS = {
  "contributing": "What was trained on in steps that are part of a committed round, of all that pools trained on",
  "eval loss": "Loss of the shared (outer) parameters on held-out data, in nats per token (of a graph: per node)",
  "accuracy": "Share of validation nodes whose class is predicted, with the shared (outer) parameters", "test accuracy": "The same of test nodes, at the job's end",
  "macro f1": "Mean of the classes' F1 at each pool, weighted by the pools' nodes",
  "perplexity": "exp(eval loss): of tokens that are bytes it is small; compare bits per byte, eval loss / ln 2",
  "computing": "Compute / (compute + exposed wait + exchange), mean over the pools",
  "exposed wait": "Time in which training stood still because a commit had not arrived",
  "bytes up": "From the pools to the coordinator, with all framing", "bytes down": "From the coordinator to the pools, with all framing",
  "mean rate": "All bytes of the job over its duration, of all links together",
  "data parallel would send": "bf16 gradients up and down at every step, of all pools",
  "pools participating": "Pools with a rank that has opened its plan: rounds wait for them",
  "uplink NMSE": "Normalised mean squared error of the uplink's codec: how much of a contribution coding loses",
  "Mbit/s up": "What its link carried in the newest rounds, without framing", "Mbit/s down": "What its link carried in the newest rounds, without framing",
  "contributed": "What this pool trained on in steps that are part of committed rounds", "waited": "Exposed wait of this pool",
  "outer parameters": "The last committed parameters, the same bytes at every pool",
};
const explained = (name) => (TERMS[name] ? {title: TERMS[name]} : {});
const ENDED = ["COMPLETED", "FAILED", "CANCELLED"];

const metricOf = (metrics, name) => ((metrics || []).find((m) => m.name === name) || {}).value;
const spaced = (name) => name.replaceAll("_", " ");
// Counts are no measure.
const measured = (metrics) => (metrics || []).map((m) => m.name).filter((name) => name !== "loss" && name !== "test_examples");

function metricFacts(evaluation) {
  const several = number(evaluation.pools) > 1;
  return measured(evaluation.metrics).map((name) => [spaced(name), loss(metricOf(evaluation.metrics, name))
    + (several ? ` (worst pool ${loss(metricOf(evaluation.worst_pool, name))}, mean of pools ${loss(metricOf(evaluation.mean_of_pools, name))})` : "")]);
}

// Where every pool evaluates the outer parameters on data of its own.
function showEvaluations(job) {
  const found = (job.pools || []).filter((p) => (p.outer_evaluation || []).length);
  $("evaluations").hidden = found.length === 0;
  const names = [...new Set(found.flatMap((p) => ["loss", ...measured(p.outer_evaluation)]))];
  $("evaluations").tHead.rows[0].replaceChildren(...["pool", "parameters"].map((name) => element("th", {}, name)),
    ...["step", ...names].map((name) => element("th", {class: "n"}, spaced(name))));
  const row = (p, which, step, metrics) => [p.pool, which, {n: whole(step)}, ...names.map((name) => ({n: loss(metricOf(metrics, name))}))];
  fillTable("evaluations", found.flatMap((p) => [row(p, "outer", p.outer_evaluation_step, p.outer_evaluation),
    ...((p.evaluation || []).length ? [row(p, "its own", p.evaluation_step, p.evaluation)] : [])]));
}

function showFacts(job, pools, now) {
  const mine = pools.filter((p) => p.job_id === job.id);
  const alive = mine.filter((p) => (p.progress || {}).live || ["ASSIGNED", "PARTICIPATING", "DRAINING"].includes(p.state));
  const rate = (job.pools || []).filter((p) => p.live).reduce((sum, p) => sum + number(p.tokens_per_second), 0);
  const wire = job.wire_bytes || {}, evaluation = job.eval_loss || {};
  const moved = number(wire.up_total) + number(wire.down_total);
  const running = ["RUNNING", "SEEDING"].includes(job.state);
  const tokensLeft = number(job.tokens) / Math.max(number(job.inner_step), 1) * (stepsOf(job) - number(job.inner_step));
  const ended = ENDED.includes(job.state);
  const seconds = (ended ? time(job.ended_at) : time(now)) - time(job.started_at);
  const facts = [
    ...(ended ? [] : [["pools alive", alive.length], ["pools participating", mine.filter((p) => p.state === "PARTICIPATING").length]]),
    ["contributing", `${short(job.contributed_tokens)} of ${short(job.tokens)} ${unitOf(job)}`],
    ["eval loss", `${loss(evaluation.last)} (best ${loss(evaluation.best)})`],
    ...metricFacts(evaluation),
    ["duration", duration(seconds)],
    ...(ended ? [["mean speed", seconds > 0 ? `${short(number(job.tokens) / seconds)} ${unitOf(job)}/s` : "–"]]
      : [["speed", running ? `${short(rate)} ${unitOf(job)}/s` : "–"],
         ["time left", running && rate > 0 && stepsOf(job) > 0 ? duration(tokensLeft / rate) : "–"]]),
    ["computing", `${(number(job.utilization) * 100).toFixed(1)} %`],
    ["exposed wait", duration(number(job.exposed_wait_seconds))],
    ["bytes up", bytes(wire.up_total)],
    ["bytes down", bytes(wire.down_total)],
    ["mean rate", moved > 0 && seconds > 0 ? `${brief(moved * 8e-6 / seconds)} Mbit/s` : "–"],
    ["data parallel would send", moved > 0 ? `${bytes(job.data_parallel_bytes)} (${(number(job.data_parallel_bytes) / moved).toFixed(0)}×)` : "–"],
    ["parameters", short(job.parameters)],
  ];
  $("facts").replaceChildren(...facts.map(([name, value]) => element("div", {}, element("dt", explained(name), name), element("dd", {}, String(value)))));
}

function pauseOf(job) {
  const { by, reason } = job.pause || {};
  return job.pause ? `paused${by ? ` by ${by}` : ""}${reason ? `: ${reason}` : ""}` : "";
}

// Commands for a shell: names of jobs have nothing that one would expand, others are not shown.
function results(detail) {
  const job = detail.job, name = nameOf(job);
  const written = (detail.events || []).filter((e) => e.kind === "CHECKPOINT_WRITTEN").map((e) => number(e.step));
  if (!written.length || !/^[a-z][a-z0-9-]*$/.test(name)) return [element("li", {class: "dim"}, "No checkpoint was written yet.")];
  const at = `${name}@${Math.max(...written)}`;
  return [[`checkpoints of ${written.length === 1 ? "step" : "steps"} ${written.slice(-5).map(whole).join(", ")}`, `longhaul checkpoints ${name}`],
          ["copy the newest", `longhaul download ${at} --out ${name}-checkpoint`],
          ["as a Hugging Face model", `longhaul export ${at} --out ${name}-hf`],
          ["let it write", `longhaul sample ${at} --prompt TEXT`]]
    .map(([what, command]) => element("li", {}, `${what}: `, element("code", {}, command)));
}

// A select of the other jobs; the chosen one is behind a comma in the address.
function showOverlay(job, jobs, chosen) {
  const names = jobs.map(nameOf).filter((name) => name !== nameOf(job));
  if (chosen && !names.includes(chosen)) names.push(chosen);
  const select = $("overlay");
  select.parentNode.hidden = names.length === 0;
  if (document.activeElement === select) return;  // Somebody is choosing.
  select.replaceChildren(element("option", {value: ""}, "no other job"), ...names.map((name) => element("option", {value: name}, name)));
  select.value = chosen || "";
}

function showJob(detail, pools, curves, other) {
  const job = detail.job;
  $("job-title").replaceChildren(nameOf(job) + " ", jobState(job));
  const error = job.error || {};
  const notice = $("notice");
  const words = [error.message, error.hint, job.waiting_for ? `waits for ${job.waiting_for}` : "", pauseOf(job), ...findingsOf(job), ...(job.warnings || [])].filter(Boolean);
  const hints = new Set([error.hint, ...((job.health || {}).findings || []).map((f) => f.hint)]);
  notice.hidden = words.length === 0;
  notice.className = error.message || (job.health || {}).level === "FAILING" ? "bad" : "";
  notice.replaceChildren(...words.map((word) => element("p", hints.has(word) ? {class: "next"} : {}, word)));
  $("progress").value = stepsOf(job) ? number(job.inner_step) / stepsOf(job) : 0;
  showFacts(job, pools, detail.now);
  showForecast(job.forecast);
  // One unit is one pixel, so that words have their size on a phone as well.
  const width = Math.max($("job").clientWidth - 32, 280);
  $("loss").replaceChildren(lossChart(detail, width, curves, other));
  const unit = unitOf(job);
  for (const name of document.querySelectorAll(".unit")) name.textContent = unit;
  $("curves").replaceChildren(...smallCharts(curves, unit[0].toUpperCase() + unit.slice(1)));
  $("results").replaceChildren(...results(detail));
  const spec = JSON.stringify(job.spec || {}, null, 2);
  if ($("spec").textContent !== spec) $("spec").textContent = spec;  // Else a selection in it would be lost.
  $("rounds").replaceChildren(roundsChart(detail, width));
  const stateOf = Object.fromEntries(pools.filter((p) => p.job_id === job.id).map((p) => [p.name, p.state]));
  const rates = linkRates(detail.rounds, job.fragments);
  const mbps = (pool, way) => (rates[pool] && isFinite(rates[pool][way]) ? rates[pool][way].toFixed(2) : "–");
  fillTable("job-pools", (job.pools || []).map((p) => [p.pool, stateOf[p.pool] ? state(stateOf[p.pool]) : element("span", {class: "dim"}, "left"),
    {n: whole(p.inner_step)}, {n: loss(p.train_loss)}, {n: short(p.tokens_per_second)}, {n: short(p.tokens)},
    {n: short(p.contributed_tokens)}, {n: mbps(p.pool, "up")}, {n: mbps(p.pool, "down")}, {n: duration(number(p.exposed_wait_seconds))},
    {n: number(p.uplink_nmse) ? number(p.uplink_nmse).toFixed(4) : "exact"}]));
  showEvaluations(job);
  $("no-job-pools").hidden = (job.pools || []).length > 0;
  $("job-pools").hidden = (job.pools || []).length === 0;
  const leftOut = (job.pools || []).filter((p) => number(p.left_out_rounds) || number(p.left_out_fragments));
  $("set-aside").replaceChildren(...(job.set_aside || []).map((s) => element("li", {class: "warn"},
    `${s.pool} is set aside (${s.failures} failures in a row, again in ${s.retry_in}): ${reasonOf(s)}`)),
    ...leftOut.map((p) => element("li", {class: number(p.left_out_fragments) ? "warn" : "dim"},
      `${p.pool}: guard.outer left out contributions: ${whole(p.left_out_rounds)}, the newest in ${whole(p.left_out_fragments)} of ${(job.fragments || []).length} fragments`)));
  showEvents(detail);
}

// Terms of ForecastTerm (plan.proto).
function showForecast(forecast) {
  $("forecast-part").hidden = !forecast;
  if (!forecast) return;
  const text = (name, value) => (name === "utilization" ? `${(value * 100).toFixed(1)} %`
    : name.endsWith("_seconds") ? (value < 60 ? `${value.toPrecision(3)} s` : duration(value)) : short(value));
  const off = (name, expected, measured) => (name === "utilization" ? `${((measured - expected) * 100).toFixed(1)} points`
    : expected > 0 ? `${((measured / expected - 1) * 100).toFixed(0)} %` : "–");
  fillTable("forecast", (forecast.terms || []).map((t) => {
    const expected = number(t.forecast), measured = t.measured === undefined ? undefined : number(t.measured);
    const name = element("span", t.name === forecast.wrong ? {class: "warn"} : {}, t.name.replace("_seconds", "").replaceAll("_", " "));
    return [name, {n: text(t.name, expected)}, {n: measured === undefined ? "–" : text(t.name, measured)},
      {n: measured === undefined ? "–" : off(t.name, expected, measured)}];
  }));
  $("forecast-wrong").hidden = !forecast.finding;
  $("forecast-wrong").textContent = forecast.finding ? `The forecast was wrong: ${forecast.finding}` : "";
}

const EVENTS_SHOWN = 100;

function showEvents(detail) {
  const events = (detail.events || []).slice(-EVENTS_SHOWN).reverse();
  fillTable("events", events.map((e) => [new Date(e.at).toLocaleString(),
    element("span", {class: {WARNING: "warn", ERROR: "bad"}[e.severity] || "dim"}, (e.severity || "").toLowerCase()),
    (e.kind || "").toLowerCase().replaceAll("_", " "), e.pool || "", {wide: e.hint ? `${e.message}. ${e.hint}` : e.message}]));
}

// A coordinator with tokens answers 401 without one. It is kept as long as the tab is open.
class TokenNeeded extends Error {}
const TOKEN = "longhaul-token";

async function ask(path) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? {Authorization: `Bearer ${token}`} : {};
  const response = await fetch(path, {signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store", headers});
  if (response.status === 401) {
    sessionStorage.removeItem(TOKEN);
    throw new TokenNeeded(token ? "This token is not accepted." : "This coordinator shows its jobs to those who have a token.");
  }
  if (response.status === 404) return undefined;
  if (!response.ok) throw new Error((await response.text()).trim() || `HTTP ${response.status}`);
  return response.json();
}

// The overview has the newest jobs alone, this has any, by name or id. Undefined: there is no such job.
async function askJob(name) {
  if (!name) return undefined;
  const detail = await ask(`/api/v1/job?name=${encodeURIComponent(name)}`);
  return detail && detail.job ? detail : undefined;
}

// What follows the '#' of the address, and a second name behind a comma. People type there: it may be no name at all.
function namesInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1)).split(",");
  } catch {
    return [""];
  }
}

// Files are read for them, and they change slowly.
const CURVES_MS = 15000;
const curvesOf = new Map();
async function askCurves(name) {
  const kept = curvesOf.get(name);
  if (kept && performance.now() - kept.at < CURVES_MS) return kept.curves;
  const answer = await ask(`/api/v1/curves?job=${encodeURIComponent(name)}`).catch((error) => {
    if (error instanceof TokenNeeded) throw error;
  });
  const curves = (answer || {}).curves;
  if (curvesOf.size > 8) curvesOf.clear();
  curvesOf.set(name, {at: performance.now(), curves});
  return curves;
}

// The job of the address, else one that runs, else the newest.
async function askChosen(jobs) {
  const usual = jobs.find((j) => j.state === "RUNNING") || jobs[0] || {};
  return await askJob(namesInAddress()[0]) || askJob(usual.id);
}

async function refresh() {
  try {
    const overview = await ask("/api/v1/overview");
    const chosen = askChosen(overview.jobs || []);
    // The overview is shown even if the job's report does not come.
    const known = await chosen.catch(() => undefined);
    showOverview(overview, known && known.job.id);
    const detail = await chosen;
    $("job").hidden = !detail;
    const [wanted, second] = namesInAddress();
    const missed = detail && wanted && ![nameOf(detail.job), detail.job.id].includes(wanted);
    $("unknown-job").hidden = !missed;
    $("unknown-job").textContent = missed ? `No job is named ${wanted}. This is ${nameOf(detail.job)}.` : "";
    if (detail) {
      showOverlay(detail.job, overview.jobs || [], second);
      const other = second && {name: second, curves: await askCurves(second)};
      showJob(detail, overview.pools || [], await askCurves(detail.job.id), other);
    }
    $("clock").textContent = `as of ${new Date(overview.now).toLocaleTimeString()}`;
    $("ask-token").hidden = true;
    document.body.dataset.drawn = "yes";
  } catch (error) {
    if (error instanceof TokenNeeded) return askForToken(error.message);
    $("health").className = "bad";
    $("health").textContent = `the coordinator does not answer (${error.message}); trying again`;
  }
}

function askForToken(why) {
  $("token-why").textContent = why;
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== "ask-token";
  $("health").className = "warn";
  $("health").textContent = "waits for a token";
  clearInterval(polling);
}
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();  // Nothing is sent but the next question.
  sessionStorage.setItem(TOKEN, $("token").value.trim());
  $("token").value = "";
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id === "ask-token";
  polling = setInterval(tick, POLL_MS);
  tick();
});

let refreshing = false;
async function tick() {
  if (refreshing) return;
  refreshing = true;
  await refresh();
  refreshing = false;
}
$("overlay").addEventListener("change", (event) => {
  event.target.blur();
  location.hash = [namesInAddress()[0] || $("job-title").firstChild.textContent.trim(), event.target.value].filter(Boolean).map(encodeURIComponent).join(",");
});
for (const cell of document.querySelectorAll("#job-pools th")) {
  if (TERMS[cell.textContent]) cell.title = TERMS[cell.textContent];
}
addEventListener("hashchange", tick);
let polling = setInterval(tick, POLL_MS);
tick();
