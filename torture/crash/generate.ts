import fc from "fast-check";
import type { BodyPlan, EffectPlan, GraphPlan, Kill, LayerPlan, NodePlan, Plan, StagePlan, StepPlan } from "./plan";

/** Where a process dies: at this many ten-thousandths of its points, or of its time. */
export interface Aim {
  part: number;
  by: "point" | "clock";
}

/** A plan, and where in it processes die: each list is one trial. */
export interface Draw {
  plan: Plan;
  trials: readonly (readonly Aim[])[];
}

/** What a graph may hold, by where it is. */
interface Place {
  /** Whether bodies can ask a person: not without a checkpointer. */
  asks: boolean;
  /** Whether inputs have to tell effects apart: without a checkpoint, nothing else does. */
  inputs: boolean;
  /** Whether a graph may keep its state from visit to visit. */
  stable: boolean;
  /** Whether bodies may call graphs that keep checkpoints, and whether a person can be asked in these. */
  keeping: boolean;
  askingCalls: boolean;
  /** How deep graphs may be nested as nodes. */
  depth: number;
  /** Whether bodies call graphs: not those of called graphs, since deeper graphs may repeat what finished (docs/guarantees.md). */
  calls: boolean;
  /** Whether graphs here may have breakpoints. */
  stops: boolean;
}

const often = <T>(weight: number, arbitrary: fc.Arbitrary<T>) => ({ weight, arbitrary });

const effects = ({ inputs }: Place): fc.Arbitrary<EffectPlan> =>
  fc.record({
    name: fc.constantFrom("pay", "pay", "mail"),
    kind: fc.constantFrom("probe", "idempotent", "bare"),
    throws: fc.oneof(often(12, fc.constant(false)), often(1, fc.constant(true))),
    told: inputs ? fc.constant("input" as const) : fc.constantFrom("input", "id", "nothing"),
    slow: fc.boolean(),
  });

function steps(place: Place, max = 2): fc.Arbitrary<StepPlan[]> {
  const called = { ...place, asks: place.asks && place.askingCalls, depth: 0, calls: false };
  const kinds: { weight: number; arbitrary: fc.Arbitrary<StepPlan> }[] = [
    often(6, fc.record({ do: fc.constant("effect"), effect: effects(place) })),
    often(1, fc.record({ do: fc.constant("effects"), effects: fc.array(effects(place), { minLength: 2, maxLength: 2 }) })),
    often(1, fc.constant({ do: "wait" })),
  ];
  if (place.asks) kinds.push(often(1, fc.constant({ do: "ask" })));
  if (place.calls) {
    const kept = fc.record({
      do: fc.constant("call" as const),
      graph: graphs(called, 2, 1),
      times: fc.constantFrom(1 as const, 1 as const, 2 as const),
      keeps: place.stable ? fc.constantFrom(true, true, "always" as const) : fc.constant(true),
    });
    const unsaved = fc.record({
      do: fc.constant("call" as const),
      graph: graphs({ ...called, asks: false, inputs: true, stops: false }, 1, 2),
      times: fc.constant(1 as const),
      keeps: fc.constant(false),
    });
    if (place.keeping) kinds.push(often(1, kept));
    kinds.push(often(1, unsaved));
  }
  return fc.array(fc.oneof(...kinds), { maxLength: max });
}

function bodies(place: Place, max = 2): fc.Arbitrary<BodyPlan> {
  const fails = fc.oneof(often(20, fc.constant("no")), often(4, fc.constant("retried")), often(1, fc.constant("stops")));
  return fc.record({ steps: steps(place, max), fails });
}

function nodes(place: Place): fc.Arbitrary<NodePlan> {
  const kinds: { weight: number; arbitrary: fc.Arbitrary<NodePlan> }[] = [
    often(6, fc.record({ is: fc.constant("body"), body: bodies(place) })),
    often(
      1,
      fc.record({
        is: fc.constant("sends"),
        body: bodies(place, 1),
        packets: fc.integer({ min: 1, max: 2 }),
        worker: bodies({ ...place, calls: false }, 2),
      }),
    ),
  ];
  if (place.depth > 0) {
    const inner = graphs({ ...place, depth: place.depth - 1 }, 2, 2);
    kinds.push(
      often(
        1,
        fc.record({
          is: fc.constant("graph"),
          graph: inner,
          keeps: place.stable ? fc.constantFrom("task", "task", "always") : fc.constant("task"),
        }),
      ),
    );
  }
  return fc.oneof(...kinds);
}

function graphs(place: Place, layersMax: number, nodesMax: number): fc.Arbitrary<GraphPlan> {
  const layer: fc.Arbitrary<LayerPlan> = fc.record({
    nodes: fc.array(nodes(place), { minLength: 1, maxLength: nodesMax }),
    entered: fc.constantFrom("by any", "by any", "by all", "chosen", "goto"),
  });
  return fc.record({
    layers: fc.array(layer, { minLength: 1, maxLength: layersMax }),
    rounds: fc.oneof(often(4, fc.constant(0)), often(1, fc.constant(2))),
    skips: fc.oneof(often(4, fc.constant(false)), often(1, fc.constant(true))),
    stops: place.stops ? fc.oneof(often(6, fc.constant("no")), often(1, fc.constantFrom("before", "after"))) : fc.constant("no"),
  });
}

const kept: Place = {
  asks: true,
  inputs: false,
  stable: true,
  keeping: true,
  askingCalls: true,
  depth: 2,
  calls: true,
  stops: true,
};
/**
 * With "exit" a lost run starts from scratch, and only inputs tell its side effects apart (docs/effects.md). A node that calls graphs which ask never
 * ends there, with any checkpointer: LangGraph forgets the answer to the first when the second asks.
 */
const lost: Place = { ...kept, inputs: true, stable: false, askingCalls: false, stops: false };

/** LangGraph repeats what finished in a graph that a functional task calls, so tasks call only graphs without checkpoints. */
const stages = (place: Place): fc.Arbitrary<StagePlan> =>
  fc.oneof(
    often(2, fc.record({ tasks: fc.array(bodies({ ...place, asks: false, keeping: false }), { minLength: 1, maxLength: 3 }) })),
    often(1, fc.record({ steps: steps(place) })),
  );

const programs = (place: Place): fc.Arbitrary<Plan["program"]> =>
  fc.oneof(
    often(5, fc.record({ graph: graphs(place, 4, 2) })),
    often(1, fc.record({ flow: fc.record({ stages: fc.array(stages(place), { minLength: 1, maxLength: 4 }) }) })),
  );

const plans: fc.Arbitrary<Plan> = fc.oneof(
  often(3, fc.record({ durability: fc.constantFrom("async", "async", "sync"), program: programs(kept) })),
  often(1, fc.record({ durability: fc.constant("exit"), program: programs(lost) })),
);

const aim: fc.Arbitrary<Aim> = fc.record({ part: fc.nat(9_999), by: fc.constantFrom("point", "point", "clock") });

/** Half of the trials also kill the resuming process, and a few the one after it. */
const trial = fc.oneof(
  often(4, fc.array(aim, { minLength: 1, maxLength: 1 })),
  often(3, fc.array(aim, { minLength: 2, maxLength: 2 })),
  often(2, fc.array(aim, { minLength: 3, maxLength: 5 })),
);

const draws: fc.Arbitrary<Draw> = fc.noBias(fc.record({ plan: plans, trials: fc.array(trial, { minLength: 8, maxLength: 8 }) }));

/** As many plans as asked for; the first of them are the same, however many they are. */
export function drawn(seed: number, count: number): Draw[] {
  return fc.sample(draws, { seed, numRuns: count });
}

/**
 * When processes die, each counted from its own start: somewhere on what is left of the way.
 *
 * @param points how many the uncrashed run passed
 * @param tookMs how long it took
 */
export function killsOf(trial: readonly Aim[], points: number, tookMs: number): Kill[] {
  // A resumed process passes a few points again, and new Thoughts.
  const BEGINNING = 12;
  let left = 1;
  return trial.map(({ part, by }, index) => {
    const at = part / 10_000;
    const way = left;
    left *= 1 - at;
    if (by === "clock") return { afterMs: Math.round(way * tookMs * at) };
    return 1 + Math.floor(at * (way * points + (index === 0 ? 0 : BEGINNING)));
  });
}
