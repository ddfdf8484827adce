/**
 * Under which a saver's recorder carries its journal of side effects, and `effect()` finds it among a run's callbacks. A registered symbol,
 * so that the ESM and the CommonJS build find each other.
 */
export const JOURNAL: unique symbol = Symbol.for("langgraph-checkpoint-turns.journal");
