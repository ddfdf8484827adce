import { z } from "zod";
import { TurnsError } from "../errors";
import { checkedOptions } from "../options";
import {
  type Gate,
  type GateDefaults,
  gateDefaultsSchema,
  gateOf,
  type GateOptions,
  gateSchema,
  type Gates,
} from "./gate-options";
import type { Validation } from "./verdict";

/** Gates as they are given: one for each node that has one, and what goes for all. */
export interface GatesOptions {
  nodes?: Readonly<Record<string, GateOptions>> | undefined;
  defaults?: GateDefaults | undefined;
}

const gatesSchema = z.strictObject({
  nodes: z.record(z.string(), gateSchema).optional(),
  defaults: gateDefaultsSchema.optional(),
});

/** @throws {TurnsError} INVALID_OPTION naming the option by its path, e.g. `nodes.draft.warnBelow` */
export function resolveGates(options: GatesOptions = {}): Gates {
  const { nodes = {}, defaults = {} } = checkedOptions(gatesSchema, options);
  return Object.fromEntries(
    Object.entries(nodes).map(([node, given]): [string, Gate] => {
      const gate = gateOf(given, defaults);
      if (gate === undefined) throw disordered(node, given, defaults);
      return [node, gate];
    }),
  );
}

/** What a node fails with when its gate lets nothing through. */
export function validationFailed(
  at: { threadId: string; nodeName: string; nodeNs: string; nodeTaskId: string; turnId: string | undefined },
  gate: Gate,
  validation: Validation,
): TurnsError {
  const { confidence, minConfidence, onFailure, recommendation } = validation;
  return new TurnsError("VALIDATION_FAILED", {
    what: `the output of node ${JSON.stringify(at.nodeName)}`,
    expected: `a confidence of at least ${minConfidence}`,
    found: `${confidence}`,
    remedy:
      onFailure === "rollback"
        ? `A GraphRunner goes back to the previous checkpoint and runs on from there, ${gate.maxRollbacks} times at the most (maxRollbacks); whoever sees this error has no more of them, or no GraphRunner. Resume runs the node again; lower minConfidence or set onFailure: "record" to accept its output.`
        : "Its output was recorded and not used. Resume runs the node again; the turn's validation says what the validator gave as a reason.",
    data: { ...at, confidence, minConfidence, onFailure, recommendation, maxRollbacks: gate.maxRollbacks },
  });
}

function disordered(node: string, given: GateOptions, defaults: GateDefaults): TurnsError {
  const option = given.warnBelow === undefined ? `nodes.${node}.minConfidence` : `nodes.${node}.warnBelow`;
  return new TurnsError("INVALID_OPTION", {
    what: `option ${JSON.stringify(option)}`,
    expected: "a warnBelow that is not below minConfidence, the defaults counted in",
    found: `minConfidence ${given.minConfidence ?? defaults.minConfidence ?? "0.7"}, warnBelow ${given.warnBelow ?? defaults.warnBelow ?? "0.85"}`,
    remedy: "Correct the option; the documentation of its type lists what is allowed.",
    data: { option },
  });
}
