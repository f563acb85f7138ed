package android.view.accessibility;

public class AccessibilityManager {
    public static boolean exploring = false;

    public boolean isTouchExplorationEnabled() {
        return exploring;
    }
}
