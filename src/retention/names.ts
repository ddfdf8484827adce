import { z } from "zod";
import { isId } from "../system";
import { checkedOptions, idSchema } from "../options";
import { type Page, pageOf, type PageOptions, textPage } from "../page";
import { checkedId } from "../run-config";
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
  createdAt: Date;
}

const isNamespace = (value: unknown): boolean => value === "" || isId(value);
const schema = () =>
  z.strictObject({
    threadId: idSchema,
    checkpointNs: z.custom<string>(isNamespace, "must be a namespace").default(""),
    checkpointId: idSchema.optional(),
    name: idSchema,
  });

/** Names of checkpoints, which keep them from being pruned: `saver.names`. */
export class Names {
  readonly #store: Store;
  readonly #clock: () => Date;

  /** @internal */
  constructor(store: Store, clock: () => Date) {
    this.#store = store;
    this.#clock = clock;
  }

  /**
   * Gives a checkpoint a name, so that it is never pruned. A name is unique in its thread: given again, it moves.
   *
   * @param request without `checkpointId` the newest checkpoint is meant
   * @throws {TurnsError} INVALID_OPTION, CHECKPOINT_NOT_FOUND
   */
  async set(request: NameRequest, name: string): Promise<NamedCheckpoint> {
    const { threadId, checkpointNs: ns, checkpointId, name: checked } = checkedOptions(schema, { ...request, name });
    return toNamed(await this.#store.nameCheckpoint({ threadId, ns, checkpointId }, checked, this.#clock().toISOString()));
  }

  /** The names of a thread's checkpoints, in alphabetical order. @throws {TurnsError} INVALID_OPTION, THREAD_NOT_FOUND */
  async list(threadId: string, options: PageOptions<string> = {}): Promise<Page<NamedCheckpoint, string>> {
    const { after, limit } = checkedOptions(textPage, options);
    const rows = await this.#store.listNames(checkedId(threadId, "thread_id", "names.list"));
    const behind = after === undefined ? rows : rows.filter(({ name }) => isBehind(name, after));
    return pageOf(behind.map(toNamed), limit, ({ name }) => name);
  }

  /** Takes a name away; the checkpoint stays until something prunes it. @returns whether there was such a name */
  async delete(threadId: string, name: string): Promise<boolean> {
    const id = checkedId(threadId, "thread_id", "names.delete");
    return this.#store.unnameCheckpoint(id, checkedId(name, "name", "names.delete"));
  }
}

/** In the order of the database, which is that of the bytes. */
function isBehind(name: string, after: string): boolean {
  return Buffer.compare(Buffer.from(name), Buffer.from(after)) > 0;
}

function toNamed({ name, ns: checkpointNs, checkpointId, createdAt }: CheckpointName): NamedCheckpoint {
  return { name, checkpointNs, checkpointId, createdAt: new Date(createdAt) };
}
