import { killsHold } from "./tx-kills";
import { type Bank, SQLITE_LIBRARIES } from "./tx-world";

let bank: Bank;
beforeAll(async () => (bank = await SQLITE_LIBRARIES[0]!.open()));
afterAll(() => bank.close());

describe("SIGKILL on SQLite", () => killsHold(() => ({ bank, env: { BANK: bank.path! } })));
