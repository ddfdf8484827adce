import { type Variant, Lab, type Note, thread } from "../support/diff-harness";
import { normalised } from "../support/diff-normalise";
import { JumpyClock } from "./jumpy-clock";

/** What is done with a graph, and where the clock jumps meanwhile; where jumps aren't what is tested, it stays as it is. */
export type Timed = (lab: Lab, clock: Pick<JumpyClock, "jump" | "around">) => Promise<void>;
export type Durability = "sync" | "async" | "exit";

const SANE = { jump: () => undefined, around: <F>(body: F): F => body } as JumpyClock;

class TimedLab extends Lab {
  constructor(
    variant: Variant,
    readonly durability: Durability,
  ) {
    super(variant, "invoke");
    this.withoutList();
  }

  override async run(graph: any, input: unknown, config: any = thread()): Promise<void> {
    return super.run(graph, input, { durability: this.durability, ...config });
  }
}

interface Setting {
  /** What the clock shows, jump after jump. */
  offsets: readonly number[];
  /** Whether it also jumps by itself, whenever it was asked for the time so often. */
  every?: number;
  durability?: Durability;
  variants?: readonly Variant[];
}

async function played(variant: Variant, scenario: Timed, setting: Setting | undefined, durability: Durability): Promise<Note[]> {
  const lab = new TimedLab(variant, durability);
  const clock = setting === undefined ? SANE : new JumpyClock(setting.offsets);
  if (setting?.every !== undefined) clock.run(setting.every);
  try {
    await scenario(lab, clock);
    return normalised(lab.notes) as Note[];
  } finally {
    if (setting !== undefined) clock.restore();
    lab.close();
  }
}

/** The scenario on our saver, while the clock jumps, must show what MemorySaver shows with a clock that doesn't. */
export async function expectSameInspiteOf(setting: Setting, scenario: Timed): Promise<void> {
  const { variants = ["turns", "attached"], durability = "async" } = setting;
  const wanted = await played("memory", scenario, undefined, durability);
  expect(wanted.length).toBeGreaterThan(0);
  for (const variant of variants) {
    const found = await played(variant, scenario, setting, durability);
    expect({ variant, notes: found }).toEqual({ variant, notes: wanted });
  }
}
