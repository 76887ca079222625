/** Bytes and their spellings: hexadecimal, base64 in one spelling, UTF-8, SHA-256, HMAC-SHA256. */

/** Bytes that WebCrypto takes: never shared memory. */
export type Bytes = Uint8Array<ArrayBuffer>;

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUES = new Int16Array(128).fill(-1);
for (let i = 0; i < 64; i++) VALUES[BASE64.charCodeAt(i)] = i;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Return a copy of the bytes. */
export function copied(raw: Uint8Array): Bytes {
  const copy = new Uint8Array(raw.length);
  copy.set(raw);
  return copy;
}

/** Return the UTF-8 bytes of a text. */
export function utf8(text: string): Bytes {
  return copied(encoder.encode(text));
}

/** Return the text of UTF-8 bytes; throws a TypeError where they are not UTF-8. */
export function text(raw: Uint8Array): string {
  return decoder.decode(raw);
}

/** Return lower-case hexadecimal digits. */
export function hex(raw: Uint8Array): string {
  let digits = "";
  for (const byte of raw) digits += (byte + 256).toString(16).slice(1);
  return digits;
}

/** Return the bytes of hexadecimal digits, which the caller has checked. */
export function unhex(digits: string): Bytes {
  const raw = new Uint8Array(digits.length >> 1);
  for (let i = 0; i < raw.length; i++) raw[i] = parseInt(digits.slice(2 * i, 2 * i + 2), 16);
  return raw;
}

/** Return the bytes one after another. */
export function concat(...parts: Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Return whether two arrays hold the same bytes. */
export function same(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

/** Return standard base64 with padding. */
export function toBase64(raw: Uint8Array): string {
  const parts: string[] = [];
  for (let i = 0; i < raw.length; i += 3) {
    const left = raw.length - i;
    const word = (raw[i]! << 16) | ((raw[i + 1] ?? 0) << 8) | (raw[i + 2] ?? 0);
    parts.push(
      BASE64[word >> 18]! +
        BASE64[(word >> 12) & 63]! +
        (left > 1 ? BASE64[(word >> 6) & 63]! : "=") +
        (left > 2 ? BASE64[word & 63]! : "="),
    );
  }
  return parts.join("");
}

/** Return the bytes of base64 as `toBase64` spells it; null for every other text. */
export function fromBase64(spelled: string): Bytes | null {
  if (spelled.length % 4) return null;
  const padding = spelled.endsWith("==") ? 2 : spelled.endsWith("=") ? 1 : 0;
  const raw = new Uint8Array((spelled.length / 4) * 3 - padding);
  let word = 0;
  for (let i = 0, at = 0; i < spelled.length; i++) {
    const padded = i >= spelled.length - padding;
    const code = spelled.charCodeAt(i);
    const value = padded ? 0 : code < 128 ? VALUES[code]! : -1;
    if (value < 0) return null;
    word = (word << 6) | value;
    if (i % 4 < 3) continue;
    for (const shift of [16, 8, 0]) {
      const byte = (word >> shift) & 255;
      if (at < raw.length) raw[at++] = byte;
      else if (byte) return null; // unused bits that are not 0
    }
    word = 0;
  }
  return raw;
}

/** Return the SHA-256 of the bytes. */
export async function sha256(raw: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", raw));
}

/** Return the HMAC-SHA256 of a message. */
export async function hmac(key: Bytes, message: Bytes): Promise<Bytes> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, message));
}
