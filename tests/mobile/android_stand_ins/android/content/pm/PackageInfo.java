package android.content.pm;

public class PackageInfo {
    public long lastUpdateTime = 1_765_432_100_123L;
}
