import type { TimelineTask } from "../api";

/** A stretch of time in which something ran, and where it is drawn: from 0 to 1. */
interface Stretch {
  from: number;
  to: number;
  left: number;
  right: number;
}

export interface Tick {
  at: number;
  left: number;
  /** `03:43:57`, or `:58` if only the seconds differ from the tick before. */
  full: boolean;
}

/** Where moments are drawn. Long idle times between stretches are drawn short. */
export interface Scale {
  of: (at: number) => number;
  ticks: Tick[];
  /** Idle times, as they're drawn. */
  idle: { left: number; right: number; ms: number }[];
}

/** The share of the width of an idle time, and of all of them. */
const IDLE = 0.035;
const MOST_IDLE = 0.35;
/** An idle time is drawn short if it's longer than this share of the time in which something ran. */
const LONG = 0.6;
/** A margin at both ends, for edges and names. */
const MARGIN = 0.012;

export function scaleOf(tasks: readonly TimelineTask[], until: number): Scale {
  const spans = tasks
    .flatMap(({ lanes, deaths }) => [
      ...lanes.flatMap(({ bars }) =>
        bars.map(({ from, to }) => [Date.parse(from), to === null ? until : Date.parse(to)] as const),
      ),
      ...deaths.map(({ at }) => [Date.parse(at), Date.parse(at)] as const),
    ])
    .sort(([left], [right]) => left - right);
  const busy = spans.reduce((sum, [from, to]) => sum + Math.max(0, to - from), 0);
  const gap = Math.max(400, busy * LONG);
  const joined: { from: number; to: number }[] = [];
  for (const [from, to] of spans) {
    const last = joined.at(-1);
    if (last !== undefined && from - last.to <= gap) last.to = Math.max(last.to, to);
    else joined.push({ from, to });
  }
  if (joined.length === 0) return { of: () => 0, ticks: [], idle: [] };
  const idleWidth = joined.length < 2 ? 0 : Math.min(IDLE, MOST_IDLE / (joined.length - 1));
  const room = 1 - 2 * MARGIN - idleWidth * (joined.length - 1);
  // What is short can still be seen beside what is long.
  const least = Math.max(20, joined.reduce((sum, { from, to }) => sum + to - from, 0) / 40);
  const lengths = joined.map(({ from, to }) => Math.max(least, to - from));
  const all = lengths.reduce((sum, length) => sum + length, 0);
  let left = MARGIN;
  const stretches = joined.map(({ from, to }, index): Stretch => {
    const right = left + ((lengths[index] ?? least) / all) * room;
    const stretch = { from, to: Math.max(to, from + (lengths[index] ?? least)), left, right };
    left = right + idleWidth;
    return stretch;
  });
  const of = (at: number): number => {
    let before: Stretch | undefined;
    for (const stretch of stretches) {
      if (at < stretch.from) return before === undefined ? 0 : (before.right + stretch.left) / 2;
      if (at <= stretch.to)
        return stretch.left + ((at - stretch.from) / (stretch.to - stretch.from)) * (stretch.right - stretch.left);
      before = stretch;
    }
    return before?.right ?? 1;
  };
  const idle = stretches.slice(1).map((stretch, index) => {
    const before = stretches[index] ?? stretch;
    return { left: before.right, right: stretch.left, ms: stretch.from - (joined[index]?.to ?? stretch.from) };
  });
  return { of, ticks: ticksOf(stretches, of), idle };
}

const STEPS = [
  ...[1_000, 2_000, 5_000, 10_000, 15_000, 30_000],
  ...[60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000],
];
/** Names of moments need this share of the width: whole ones, and those with seconds only. */
const TICK_ROOM = 0.135;
const SHORT_ROOM = 0.09;

function ticksOf(stretches: readonly Stretch[], of: (at: number) => number): Tick[] {
  const ticks: Tick[] = [];
  for (const { from, to, left, right } of stretches) {
    const perUnit = (right - left) / (to - from);
    const step = STEPS.find((each) => each * perUnit >= SHORT_ROOM) ?? Infinity;
    const moments: number[] = [];
    if (step !== Infinity) for (let at = Math.ceil(from / step) * step; at <= to; at += step) moments.push(at);
    const first = moments.length === 0 || of(moments[0] ?? from) - left > TICK_ROOM ? [from] : [];
    for (const at of [...first, ...moments]) {
      const place = of(at);
      const last = ticks.at(-1);
      if (last !== undefined && place - last.left < (last.full ? TICK_ROOM : SHORT_ROOM)) continue;
      if (place > 0.94) continue;
      const isSameMinute = last !== undefined && Math.floor(last.at / 60_000) === Math.floor(at / 60_000);
      ticks.push({ at, left: place, full: !isSameMinute });
    }
  }
  return ticks;
}
