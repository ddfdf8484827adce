export { encryptedSealing, sealedKeyId } from "./encrypted";
export { type EncryptionOption, encryptionSchema, type KeyInput, type KeyProvider, type KeySet, type MasterKey } from "./keys";
export { type ResolvedKeys, resolveKeys } from "./keys";
export { type Identity, type Part, plainSealing, type Sealing } from "./sealing";
export {
  createDatabaseSecret,
  type FoundInDatabase,
  sealedKeyIds,
  unlock,
  type Unlocked,
  unwrapSecret,
  wrapSecret,
} from "./unlock";
