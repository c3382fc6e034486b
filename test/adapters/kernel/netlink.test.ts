// Reading netlink bytes that are cut short or lie about their length: never past the end, never for ever.
import { Buffer } from 'node:buffer';
import fc from 'fast-check';
import t from 'tap';
import { ABI } from '../../../src/adapters/kernel/abi.ts';
import { decodeExpression } from '../../../src/adapters/kernel/decode-expression.ts';
import { Attributes, encodeRequest, readMessages } from '../../../src/adapters/kernel/netlink.ts';

const request = encodeRequest({
  type: 10,
  flags: 0x300,
  seq: 7,
  texts: [
    [1, 'aether'],
    [2, 'x'],
  ],
});

t.test('readMessages() reads what encodeRequest() wrote', (t) => {
  const [message, ...rest] = [...readMessages(Buffer.concat([request, request]))];
  t.equal(rest.length, 1);
  t.match(message, { type: 10, seq: 7, errno: 0 });
  t.equal(message?.attributes.text(1), 'aether');
  t.equal(message?.attributes.text(2), 'x');
  t.equal(message?.attributes.text(3), undefined);
  t.end();
});

t.test('readMessages() gives the errno of an error, and 0 for an acknowledgement', (t) => {
  const error = Buffer.alloc(36);
  error.writeUInt32LE(36, 0);
  error.writeUInt16LE(ABI.NLMSG_ERROR, 4);
  error.writeInt32LE(-2, 16);
  t.match([...readMessages(error)], [{ type: -1, errno: 2 }]);
  error.writeInt32LE(0, 16);
  t.match([...readMessages(error)], [{ type: -1, errno: 0 }]);
  t.end();
});

t.test('readMessages() ends at every cut of a message', (t) => {
  for (let length = 0; length < request.length; length++) {
    t.strictSame([...readMessages(request.subarray(0, length))], []);
  }
  t.end();
});

t.test('readMessages() and decodeExpression() end on any bytes', (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      for (const { attributes } of readMessages(Buffer.from(bytes))) attributes.text(1);
      for (const item of new Attributes(Buffer.from(bytes)).list(1)) decodeExpression(item);
      decodeExpression(new Attributes(Buffer.from(bytes)));
    }),
  );
  t.end();
});
