package standin;

import android.security.keystore.KeyGenParameterSpec;
import java.io.InputStream;
import java.io.OutputStream;
import java.security.Key;
import java.security.KeyStore;
import java.security.KeyStoreSpi;
import java.security.Provider;
import java.security.SecureRandom;
import java.security.Security;
import java.security.cert.Certificate;
import java.security.spec.AlgorithmParameterSpec;
import java.util.Collections;
import java.util.Date;
import java.util.Enumeration;
import java.util.HashMap;
import javax.crypto.KeyGenerator;
import javax.crypto.KeyGeneratorSpi;
import javax.crypto.SecretKey;

/** A provider named AndroidKeyStore that keeps AES keys in memory; the cipher is the JVM's own. */
public final class Store extends Provider {
    public static final HashMap<String, SecretKey> KEYS = new HashMap<>();
    public static String said = "";

    public Store() {
        super("AndroidKeyStore", "1", "a stand-in");
        put("KeyStore.AndroidKeyStore", Kept.class.getName());
        put("KeyGenerator.AES", Made.class.getName());
    }

    public static void install() {
        Security.addProvider(new Store());
    }

    public static final class Made extends KeyGeneratorSpi {
        private KeyGenParameterSpec spec;

        @Override
        protected void engineInit(SecureRandom random) {}

        @Override
        protected void engineInit(int keysize, SecureRandom random) {}

        @Override
        protected void engineInit(AlgorithmParameterSpec params, SecureRandom random) {
            spec = (KeyGenParameterSpec) params;
        }

        @Override
        protected SecretKey engineGenerateKey() {
            try {
                KeyGenerator generator = KeyGenerator.getInstance("AES", "SunJCE");
                generator.init(spec.size);
                said = spec.said + spec.purposes;
                KEYS.put(spec.alias, generator.generateKey());
                return KEYS.get(spec.alias);
            } catch (java.security.GeneralSecurityException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    public static final class Kept extends KeyStoreSpi {
        @Override
        public Key engineGetKey(String alias, char[] password) {
            return KEYS.get(alias);
        }

        @Override
        public boolean engineContainsAlias(String alias) {
            return KEYS.containsKey(alias);
        }

        @Override
        public void engineLoad(KeyStore.LoadStoreParameter param) {}

        @Override
        public void engineLoad(InputStream stream, char[] password) {}

        @Override
        public void engineStore(OutputStream stream, char[] password) {}

        @Override
        public Certificate[] engineGetCertificateChain(String alias) {
            return null;
        }

        @Override
        public Certificate engineGetCertificate(String alias) {
            return null;
        }

        @Override
        public Date engineGetCreationDate(String alias) {
            return null;
        }

        @Override
        public void engineSetKeyEntry(String alias, Key key, char[] password, Certificate[] chain) {}

        @Override
        public void engineSetKeyEntry(String alias, byte[] key, Certificate[] chain) {}

        @Override
        public void engineSetCertificateEntry(String alias, Certificate cert) {}

        @Override
        public void engineDeleteEntry(String alias) {
            KEYS.remove(alias);
        }

        @Override
        public Enumeration<String> engineAliases() {
            return Collections.enumeration(KEYS.keySet());
        }

        @Override
        public int engineSize() {
            return KEYS.size();
        }

        @Override
        public boolean engineIsKeyEntry(String alias) {
            return true;
        }

        @Override
        public boolean engineIsCertificateEntry(String alias) {
            return false;
        }

        @Override
        public String engineGetCertificateAlias(Certificate cert) {
            return null;
        }
    }
}
