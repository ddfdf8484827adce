import { z } from "zod";
import { internalsOf } from "../internals";
import { checkedOptions } from "../options";
import { giveBack, removeLeftovers } from "../retention/space";
import type { TurnSaver } from "../saver";
import { isAlive } from "../turns/process-identity";

export interface VacuumReport {
  bytesBefore: number;
  /** On disk, including the write-ahead log. */
  bytesAfter: number;
  /** Pages that are free and still in the file. */
  freePages: number;
  /**
   * `false`: the file was created without `auto_vacuum` and can't give pages back. `vacuum(saver, { full: true })` rewrites it,
   * once.
   */
  givesBack: boolean;
}

const vacuuming = z.strictObject({ full: z.boolean().default(false) });

/**
 * Makes a saver's file as small as it can be, in small steps. On PostgreSQL it runs VACUUM (ANALYZE).
 *
 * @param options.full rewrites the whole file. It's needed once for a file that another program created without `auto_vacuum`,
 *   which the report shows as `givesBack: false`. Nothing else can be saved meanwhile.
 * @throws {TurnsError} INVALID_OPTION, and what the store throws
 */
export async function vacuum(saver: TurnSaver, options: { full?: boolean } = {}): Promise<VacuumReport> {
  const { full } = checkedOptions(vacuuming, options);
  const { store } = internalsOf(saver);
  await removeLeftovers(store, isAlive);
  const { bytes: bytesBefore } = await store.space();
  const isServer = (await store.inspect.settings())["server_version"] !== undefined;
  if (full || isServer) await store.vacuumFully();
  else await giveBack(store, { truncate: true });
  const { bytes: bytesAfter, freePages, givesBack } = await store.space();
  return { bytesBefore, bytesAfter, freePages, givesBack };
}
