import { setStoreWrapper } from "../../src/testing-internal";
import { hostile } from "../support/hostile-engine";

/** Every store of these suites stands on a hostile engine: see jest.hostile.config.mjs. */
setStoreWrapper(hostile(Number(process.env["TURNS_HOSTILE_SEED"] ?? 1) * 1_000));
