import type { Contender } from "../drive/contenders";
import type { Samples } from "../measure/samples";

/** What a scenario gets. `quick` asks for smaller sizes. */
export interface Settings {
  contenders: Contender[];
  quick: boolean;
}

export interface Result {
  name: string;
  title: string;
  contenders: Contender[];
  samples: Samples;
  /** Single figures, which promises ask for. */
  facts: Record<string, number>;
  /** What a reader has to know to read the table. */
  notes: string[];
  /** What this scenario could not measure here, and why. */
  absent?: string[];
}

export interface Scenario {
  name: string;
  run(settings: Settings): Promise<Result>;
}
