package android.os;

import java.util.HashMap;

public class PersistableBundle {
    private final HashMap<String, Long> values = new HashMap<>();

    public void putLong(String key, long value) {
        values.put(key, value);
    }

    public long getLong(String key) {
        return values.getOrDefault(key, 0L);
    }
}
