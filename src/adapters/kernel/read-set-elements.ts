// The elements in a reply about a set. A node's tables have hundreds of thousands of them together, so they are read by their
// offsets, without an object for each attribute.
import type { Buffer } from 'node:buffer';
import type { KernelElement } from '../../nft/kernel-table.ts';
import { ABI } from './abi.ts';

/** Attribute header (struct nlattr, linux/netlink.h): length, type. */
const HEADER_LENGTH = 4;
/** NLA_TYPE_MASK. */
const TYPE_MASK = 0x3fff;

const align = (length: number): number => (length + 3) & ~3;

/** Reads the content of NFTA_SET_ELEM_LIST_ELEMENTS; what is cut off is left out. Keys are views of `bytes`. */
export function readSetElements(bytes: Buffer | undefined): readonly KernelElement[] {
  const elements: KernelElement[] = [];
  if (bytes === undefined) return elements;
  for (let at = 0; at + HEADER_LENGTH <= bytes.length; ) {
    const length = bytes.readUInt16LE(at);
    if (length < HEADER_LENGTH || at + length > bytes.length) break;
    elements.push(readElement(bytes, at + HEADER_LENGTH, at + length));
    at += align(length);
  }
  return elements;
}

function readElement(bytes: Buffer, from: number, to: number): KernelElement {
  let key = bytes.subarray(from, from);
  let isEnd = false;
  for (let at = from; at + HEADER_LENGTH <= to; ) {
    const length = bytes.readUInt16LE(at);
    if (length < HEADER_LENGTH || at + length > to) break;
    const type = bytes.readUInt16LE(at + 2) & TYPE_MASK;
    // The key is nested once more: NFTA_DATA_VALUE is the only attribute in it.
    if (type === ABI.NFTA_SET_ELEM_KEY && length >= 2 * HEADER_LENGTH) {
      const value = at + HEADER_LENGTH;
      key = bytes.subarray(value + HEADER_LENGTH, Math.min(value + bytes.readUInt16LE(value), at + length));
    }
    if (type === ABI.NFTA_SET_ELEM_FLAGS && length >= 2 * HEADER_LENGTH) {
      isEnd = (bytes.readUInt32BE(at + HEADER_LENGTH) & ABI.NFT_SET_ELEM_INTERVAL_END) !== 0;
    }
    at += align(length);
  }
  return { key, isEnd };
}
