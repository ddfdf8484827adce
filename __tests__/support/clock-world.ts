import { normalised } from "./diff-normalise";
import { type Engine, Lab, type Note } from "./diff-harness";
import { JumpyClock } from "./jumpy-clock";

/** What is done with a graph, and where the clock may jump meanwhile: `jump` does so where that is what is tested, or else nothing. */
export type Timed = (lab: Lab, clock: Pick<JumpyClock, "jump" | "set" | "around">) => Promise<void>;

const SANE = { jump() {}, set() {}, around: <F>(body: F): F => body } as unknown as JumpyClock;

async function played(engine: Engine, scenario: Timed, offsets: readonly number[] | undefined): Promise<Note[]> {
  const lab = new Lab(engine, "invoke").withoutList();
  const clock = offsets === undefined ? SANE : new JumpyClock(offsets);
  try {
    await scenario(lab, clock);
    return normalised(lab.notes) as Note[];
  } finally {
    lab.close();
    clock.restore?.();
  }
}

/** The scenario on our saver, while the clock jumps, must show what MemorySaver shows with a clock that doesn't. */
export async function expectSameInspiteOf(
  offsets: readonly number[],
  scenario: Timed,
  engines: readonly Engine[] = ["turns", "attached"],
): Promise<void> {
  const wanted = await played("memory", scenario, undefined);
  expect(wanted.length).toBeGreaterThan(0);
  for (const engine of engines) {
    const found = await played(engine, scenario, offsets);
    expect({ engine, notes: found }).toEqual({ engine, notes: wanted });
  }
}
