// The microphone as a WAV file: recorded by the browser, decoded by it, written as 16-bit mono here.

/**
 * @param {Float32Array} samples from -1 to 1 @param {number} rate_hz @returns {Uint8Array} a WAV file
 */
export function toWav(samples, rate_hz) {
  const view = new DataView(new ArrayBuffer(44 + samples.length * 2));
  const word = (/** @type {number} */ at, /** @type {string} */ text) => { for (let i = 0; i < 4; i += 1) view.setUint8(at + i, text.charCodeAt(i)); };
  word(0, "RIFF");
  view.setUint32(4, 36 + samples.length * 2, true);
  word(8, "WAVE");
  word(12, "fmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // integers
  view.setUint16(22, 1, true); // mono
  view.setUint32(24, rate_hz, true);
  view.setUint32(28, rate_hz * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  word(36, "data");
  view.setUint32(40, samples.length * 2, true);
  for (let i = 0; i < samples.length; i += 1) view.setInt16(44 + i * 2, Math.round(Math.max(-1, Math.min(1, samples[i])) * 32767), true);
  return new Uint8Array(view.buffer);
}

/** Begin to record; the promise gives `stop`, which gives the file. Throws what the browser refuses. */
export async function record() {
  const devices = globalThis.navigator?.mediaDevices;
  if (!devices) throw new Error("This page may not use the microphone: open it over https or from localhost.");
  const stream = await devices.getUserMedia({ audio: true });
  const recorder = new MediaRecorder(stream);
  /** @type {Blob[]} */ const pieces = [];
  recorder.ondataavailable = (event) => pieces.push(event.data);
  recorder.start();
  const began = performance.now();
  return {
    seconds: () => (performance.now() - began) / 1000,
    /** @returns {Promise<File>} */
    stop: () => new Promise((resolve, reject) => {
      recorder.onstop = async () => {
        for (const track of stream.getTracks()) track.stop();
        const context = new AudioContext();
        try {
          const sound = await context.decodeAudioData(await new Blob(pieces).arrayBuffer());
          const mixed = new Float32Array(sound.length);
          for (let channel = 0; channel < sound.numberOfChannels; channel += 1) {
            const samples = sound.getChannelData(channel);
            for (let i = 0; i < mixed.length; i += 1) mixed[i] += samples[i] / sound.numberOfChannels;
          }
          const name = `recording ${new Date().toISOString().slice(0, 19).replaceAll(":", ".").replace("T", " ")}.wav`;
          resolve(new File([/** @type {any} */ (toWav(mixed, sound.sampleRate))], name, { type: "audio/wav" }));
        } catch (error) {
          reject(error);
        } finally {
          await context.close();
        }
      };
      recorder.stop();
    }),
  };
}
