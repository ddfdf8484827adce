export { encryptedSealing } from "./encrypted";
export { sealedKeyId } from "./envelope";
export type { KeyInput, MasterKey, ResolvedKeys } from "./keys";
export { encryptionSchema, resolveKeys, type EncryptionOption, type KeyProvider, type KeySet } from "./options";
export { plainSealing } from "./plain";
export type { Identity, Part, Sealing } from "./sealing";
export { createDatabaseSecret, unwrapSecret, wrapSecret } from "./secret";
export { sealedKeyIds, unlock, type FoundInDatabase, type Unlocked } from "./unlock";
