import { z } from "zod";
import { isId } from "../system";
import { checkedOptions, idSchema } from "../options";
import { type Page, pageOf, type PageOptions, textPage } from "../page";
import { checkedArgument } from "../run-config";
import type { CheckpointName, Store } from "../store/store";

/** The checkpoint to name. Without an id, it is the newest of the namespace; the default namespace is the root. */
interface NameRequest {
  threadId: string;
  checkpointNs?: string;
  checkpointId?: string;
}

/** A name given to a checkpoint. A named checkpoint is never pruned. */
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

/** Names for checkpoints, which keep them from being pruned: `saver.names`. */
export class Names {
  readonly #store: Store;
  readonly #clock: () => Date;

  /** @internal */
  constructor(store: Store, clock: () => Date) {
    this.#store = store;
    this.#clock = clock;
  }

  /**
   * Names a checkpoint, so that it is never pruned. A name is unique in its thread: if you set it again, it moves.
   *
   * @param request without `checkpointId`, the newest checkpoint is meant
   * @throws {TurnsError} INVALID_OPTION, THREAD_NOT_FOUND, CHECKPOINT_NOT_FOUND
   */
  async set(request: NameRequest, name: string): Promise<NamedCheckpoint> {
    const { threadId, checkpointNs: ns, checkpointId, name: checked } = checkedOptions(schema, { ...request, name });
    return toNamed(await this.#store.nameCheckpoint({ threadId, ns, checkpointId }, checked, this.#clock().toISOString()));
  }

  /** Lists the names of a thread's checkpoints in alphabetical order. @throws {TurnsError} INVALID_OPTION */
  async list(threadId: string, options: PageOptions<string> = {}): Promise<Page<NamedCheckpoint, string>> {
    const { after, limit } = checkedOptions(textPage, options);
    const rows = await this.#store.listNames(checkedArgument(threadId, "threadId", "names.list"));
    const behind = after === undefined ? rows : rows.filter(({ name }) => isBehind(name, after));
    return pageOf(behind.map(toNamed), limit, ({ name }) => name);
  }

  /** Removes a name. The checkpoint stays until something prunes it. @returns whether the name existed */
  async delete(threadId: string, name: string): Promise<boolean> {
    const id = checkedArgument(threadId, "threadId", "names.delete");
    return this.#store.unnameCheckpoint(id, checkedArgument(name, "name", "names.delete"));
  }
}

/** In the database's order, which compares bytes. */
function isBehind(name: string, after: string): boolean {
  return Buffer.compare(Buffer.from(name), Buffer.from(after)) > 0;
}

function toNamed({ name, ns: checkpointNs, checkpointId, createdAt }: CheckpointName): NamedCheckpoint {
  return { name, checkpointNs, checkpointId, createdAt: new Date(createdAt) };
}
