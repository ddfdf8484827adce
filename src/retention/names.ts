import { z } from "zod";
import { isId } from "../system";
import { checkedOptions, idSchema } from "../options";
import type { CheckpointName, Store } from "../store/store";

/** A checkpoint to name; without an id the newest of the namespace, which is the root's by default. */
export interface NameRequest {
  threadId: string;
  checkpointNs?: string;
  checkpointId?: string;
}

/** A name that was given to a checkpoint, which is never pruned as long as it has one. */
export interface NamedCheckpoint {
  name: string;
  checkpointNs: string;
  checkpointId: string;
  createdAt: string;
}

const isNamespace = (value: unknown): boolean => value === "" || isId(value);
const schema = () =>
  z.strictObject({
    threadId: idSchema,
    checkpointNs: z.custom<string>(isNamespace, "must be a namespace").default(""),
    checkpointId: idSchema.optional(),
    name: idSchema,
  });

/** @throws {TurnsError} INVALID_OPTION, CHECKPOINT_NOT_FOUND */
export async function nameCheckpoint(store: Store, request: NameRequest, name: string, now: string): Promise<NamedCheckpoint> {
  const checked = checkedOptions(schema, { ...request, name });
  const at = { threadId: checked.threadId, ns: checked.checkpointNs, checkpointId: checked.checkpointId };
  return toNamed(await store.nameCheckpoint(at, checked.name, now));
}

export async function listNames(store: Store, threadId: string): Promise<NamedCheckpoint[]> {
  return (await store.listNames(threadId)).map(toNamed);
}

function toNamed({ name, ns: checkpointNs, checkpointId, createdAt }: CheckpointName): NamedCheckpoint {
  return { name, checkpointNs, checkpointId, createdAt };
}
