import { setEngineWrapper } from "../../src/testing-internal";
import { HostileEngine } from "../support/hostile-engine";

/** Every store of these suites stands on a hostile engine: see jest.hostile.config.mjs. */
const seed = Number(process.env["TURNS_HOSTILE_SEED"] ?? 1);
let opened = 0;
setEngineWrapper((engine) => new HostileEngine(engine, seed * 1_000 + (opened += 1)));
