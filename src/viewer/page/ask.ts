import { useLayoutEffect, useState } from "preact/hooks";
import type { Failure } from "../api";

export type Problem = Failure["error"];

/** An answer, or why there is none; neither while it's on its way. */
export interface Asked<T> {
  data: T | undefined;
  problem: Problem | undefined;
}

/** Answers by address, as they were at a tick. Moving back and forth between turns asks nothing twice. */
const known = new Map<string, { tick: number; data: unknown }>();
const MOST_KNOWN = 60;

/** A {@link Problem} that can be thrown. */
class Refused extends Error implements Problem {
  readonly code: string;
  readonly data: Problem["data"];

  constructor({ code, message, data }: Problem) {
    super(message);
    [this.code, this.data] = [code, data];
  }
}

/** A {@link Problem}: nothing came from the server, or not all of it. */
export const unreachable = (error: unknown): Error =>
  new Refused({
    code: "UNREACHABLE",
    message: "The program turns web doesn't answer: it has stopped, or is busy. Start it again.",
    data: { reason: String(error) },
  });

/** Asks the server once. @throws {@link Problem} */
export async function ask<T>(address: string, signal?: AbortSignal): Promise<T> {
  return answered<T>(await reached(address, { ...(signal && { signal }) }));
}

/** Asks the server to change something. @throws {@link Problem} */
export async function tell<T>(address: string, body: object): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  return answered<T>(await reached(address, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function reached(address: string, how: RequestInit): Promise<Response> {
  try {
    return await fetch(address, { ...how, credentials: "same-origin" });
  } catch (error) {
    if (how.signal?.aborted) throw error;
    throw unreachable(error);
  }
}

async function answered<T>(response: Response): Promise<T> {
  const { ok, status, statusText } = response;
  const body = (await response.json().catch((error: unknown) => {
    // The program stopped while it answered. What was asked for may well be there.
    if (ok) throw unreachable(error);
  })) as T | Failure | undefined;
  if (ok) return body as T;
  throw new Refused((body as Failure | undefined)?.error ?? { code: String(status), message: statusText, data: {} });
}

/**
 * The answer of an address. A new tick asks again, and what is there stays until the new answer comes.
 *
 * @param address null: nothing is asked
 * @param load how it's asked, if one request isn't enough
 */
export function useAnswer<T>(
  address: string | null,
  tick = 0,
  load: (address: string, signal: AbortSignal) => Promise<T> = ask<T>,
): Asked<T> {
  const [state, setState] = useState<{ address: string | null } & Asked<T>>({
    address: null,
    data: undefined,
    problem: undefined,
  });
  // Before the browser paints: the answer is on its way meanwhile.
  useLayoutEffect(() => {
    if (address === null) return;
    const before = known.get(address);
    if (before?.tick === tick) return setState({ address, data: before.data as T, problem: undefined });
    const stop = new AbortController();
    load(address, stop.signal).then(
      (data) => {
        known.delete(address);
        known.set(address, { tick, data });
        for (const oldest of known.keys()) {
          if (known.size <= MOST_KNOWN) break;
          known.delete(oldest);
        }
        setState({ address, data, problem: undefined });
      },
      (problem: Problem) => {
        if (stop.signal.aborted) return;
        // What was there may be looked at while the server can't be reached; what is gone may not.
        setState((old) => ({
          address,
          data: problem.code === "UNREACHABLE" && old.address === address ? old.data : undefined,
          problem,
        }));
      },
    );
    return () => stop.abort();
  }, [address, tick]);
  if (state.address === address) return state;
  const before = address === null ? undefined : known.get(address);
  return { data: before?.tick === tick ? (before.data as T) : undefined, problem: undefined };
}
