import type { SaverEmitter } from "../events";
import { type Gate, validated, type Validation, validationFailed } from "../guards/gates";
import type { Logger } from "../logger";
import type { Store, TurnRow } from "../store/store";
import type { Attempt } from "./recorder";

export interface GatekeeperParts {
  store: Store;
  log: Logger;
  events: SaverEmitter;
  /** Whether what a validator gives as a reason may be stored: it is words about content, which may be restricted or encrypted. */
  keepsReasons: boolean;
}

/**
 * Asks a node's gate about what it returned, or hands over to a parent (requirement S3.4), after its Action is committed and before LangGraph saves its writes, so
 * that no superstep builds on it yet. What the gate found is stored with the Action; that it cannot be stored is logged and lets nothing
 * through that the gate would not.
 *
 * @param action undefined if it could not be saved
 * @throws {TurnsError} VALIDATION_FAILED if the result failed and is not merely to be recorded. LangGraph then takes the node for
 *   failed: its writes are dropped, a retry policy or a resume runs it again
 */
export async function passGate(
  parts: GatekeeperParts,
  gate: Gate,
  attempt: Attempt,
  action: TurnRow | undefined,
  output: unknown,
): Promise<void> {
  const { threadId, name: nodeName, nodeNs, nodeTaskId, step, input } = attempt;
  const at = { threadId, nodeName, nodeNs, nodeTaskId, step, taskId: action?.taskId ?? "", attempt: action?.attempt ?? 1 };
  const validation = await validated(gate, output, { ...at, input });
  const stops = validation.verdict === "failed" && gate.onFailure !== "record";
  await save(parts, attempt, action, validation, stops);
  const { confidence, verdict } = validation;
  if (verdict !== "passed") {
    parts.log.warn(
      { threadId, node: nodeName, nodeTaskId, turnId: action?.id, confidence, verdict, onFailure: gate.onFailure },
      `the output of node ${JSON.stringify(nodeName)} ${verdict === "failed" ? "failed its validation" : "passed its validation with a warning"}`,
    );
  }
  parts.events.tell("validation", { ...at, turnId: action?.id, ...validation });
  if (stops) throw validationFailed({ threadId, nodeName, nodeNs, nodeTaskId, turnId: action?.id }, gate, validation);
}

async function save(
  { store, log, keepsReasons }: GatekeeperParts,
  { threadId, name: node, run }: Attempt,
  action: TurnRow | undefined,
  validation: Validation,
  stops: boolean,
): Promise<void> {
  if (action === undefined) return;
  try {
    const stored = keepsReasons ? validation : { ...validation, reason: undefined };
    await store.saveValidation(action.id, JSON.stringify(stored), stops ? "error" : undefined, run.lease);
  } catch (error) {
    log.error({ threadId, node, turnId: action.id, error: String(error) }, "what a gate found could not be saved");
  }
}
