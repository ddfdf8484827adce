import { DRIVERS, type DriverName, openDatabase, setStoreWrapper } from "../../src/testing-internal";
import { hostile } from "./hostile-engine";
import { LONG } from "./lane";
import { TurnSaver, type TurnSaverOptions } from "../../src/index";
import { ON_POSTGRES, openSaver } from "./open-saver";
import { tempFile } from "./temp";

/** Something that keeps threads, and how a test gets a saver on it. */
export interface Engine {
  /** For titles: `describe.each(engines)("$name", (engine) => …)`. */
  readonly name: string;
  /** Whether a save may be answered after what LangGraph does next. */
  readonly answersLate: boolean;
  /** Where a new, empty store can be: a path, see {@link openSaver}. It goes when the tests of the file have ended. */
  place(): string;
  /** A saver on the store at a place, or, if none is given, on one that goes with the saver. */
  open(options?: TurnSaverOptions, place?: string): TurnSaver;
}

const sqlite = (driver: DriverName): Engine => ({
  name: `SQLite, ${driver}`,
  answersLate: process.env["TURNS_HOSTILE"] !== undefined,
  place: () => tempFile(),
  open: (options, place = ":memory:") => TurnSaver.fromPath(place, { ...options, driver }),
});

/** Whether this Node can load the driver. */
export function isThere(driver: DriverName): boolean {
  try {
    openDatabase(":memory:", { driver }).close();
    return true;
  } catch {
    return false;
  }
}

/** SQLite behind an engine that answers later, calls facts stale and loses connections: what stands above an engine must not notice. */
const hostileEngine: Engine = {
  name: "hostile",
  answersLate: true,
  place: () => tempFile(),
  open: (options, place = ":memory:") => {
    setStoreWrapper(hostile((opened += 1)));
    try {
      return TurnSaver.fromPath(place, { ...options });
    } finally {
      setStoreWrapper(undefined);
    }
  },
};
let opened = 0;

const postgres: Engine = {
  name: "PostgreSQL",
  answersLate: true,
  place: () => tempFile(),
  open: (options, place = ":memory:") => openSaver(place, options),
};

/**
 * The engines that behave alike, each with every driver that is there. The suites that prove it run once for each of them;
 * `npm run test:postgres` runs them on PostgreSQL alone.
 */
export const engines: readonly Engine[] = ON_POSTGRES
  ? [postgres]
  : [...DRIVERS.filter(isThere).map(sqlite), ...(LONG ? [hostileEngine] : [])];

/** For suites whose subject is the same on all of them. */
export const [anyEngine = sqlite(DRIVERS[0])] = engines;
