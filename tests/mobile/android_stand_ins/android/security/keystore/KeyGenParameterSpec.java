package android.security.keystore;

import java.security.spec.AlgorithmParameterSpec;

public final class KeyGenParameterSpec implements AlgorithmParameterSpec {
    public String alias;
    public int purposes;
    public int size;
    public String said = "";

    public static final class Builder {
        private final KeyGenParameterSpec made = new KeyGenParameterSpec();

        public Builder(String keystoreAlias, int purposes) {
            made.alias = keystoreAlias;
            made.purposes = purposes;
        }

        public Builder setBlockModes(String... blockModes) {
            made.said += String.join(",", blockModes) + " ";
            return this;
        }

        public Builder setEncryptionPaddings(String... paddings) {
            made.said += String.join(",", paddings) + " ";
            return this;
        }

        public Builder setKeySize(int keySize) {
            made.size = keySize;
            return this;
        }

        public KeyGenParameterSpec build() {
            return made;
        }
    }
}
